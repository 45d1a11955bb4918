-- The newest turns of conversations, with what was inferred of each: what inference works on.
--
-- Parameters
--   conversations    conversation ids
--   turns            how many turns of each
--   kinds            kinds of signals that are inferred
--
-- Columns, a row per request by its newest version
--   conversation_id, trace_id, latency_ms
--   at                  when it started, fixed by its first version
--   question, answer    cut to what is compared
--   clicked             documents of the answer that were opened, each once
--   inferred            what is stored: (kind, confidence, reason), less what was taken back
WITH
places AS (
  SELECT filed_at, trace_id FROM requests WHERE conversation_id IN {conversations:Array(String)}
),
newest AS (
  SELECT
    conversation_id, trace_id, filed_at AS at, latency_ms,
    substringUTF8(question, 1, 4000) AS question,
    substringUTF8(answer, 1, 8000) AS answer,
    arrayFilter(key -> key NOT LIKE 'conversation %', {{ request_keys }}) AS keys
  FROM (
    SELECT * FROM requests
    WHERE (filed_at, trace_id) IN (SELECT filed_at, trace_id FROM places)
    ORDER BY version DESC
    LIMIT 1 BY trace_id
  )
  WHERE conversation_id IN {conversations:Array(String)}
  ORDER BY at DESC, trace_id DESC
  LIMIT {turns:UInt32} BY conversation_id
),
clicks AS (
  SELECT signal_id, document_id, revoked, arrayMap(key -> assumeNotNull(key), arrayFilter(key -> key IS NOT NULL, [
    concat('trace ', trace_id), concat('span ', span_id), concat('response ', response_id),
    concat('message ', message_id)
  ])) AS keys
  FROM signals
  WHERE kind = 'citation_click'
  ORDER BY rank DESC
  LIMIT 1 BY signal_id
),
clicked AS (
  SELECT links.trace_id AS trace_id, uniqExact(opened.document_id) AS documents
  FROM (SELECT trace_id, key FROM newest ARRAY JOIN keys AS key) AS links
  INNER JOIN (
    SELECT document_id, key FROM clicks ARRAY JOIN keys AS key
    WHERE NOT revoked AND document_id IS NOT NULL
  ) AS opened USING (key)
  GROUP BY trace_id
),
stored AS (
  -- The ids are those that inference gives its signals.
  SELECT
    assumeNotNull(trace_id) AS trace_id,
    groupArray((toString(kind), ifNull(confidence, 0.), ifNull(reason, ''))) AS inferred
  FROM (
    SELECT trace_id, kind, confidence, reason, revoked
    FROM signals
    WHERE signal_id IN (
      SELECT concat('inferred-', kind, '-', trace_id)
      FROM newest ARRAY JOIN {kinds:Array(String)} AS kind
    )
    ORDER BY rank DESC
    LIMIT 1 BY signal_id
  )
  WHERE NOT revoked
  GROUP BY trace_id
)
SELECT
  assumeNotNull(newest.conversation_id) AS conversation_id,
  newest.trace_id AS trace_id,
  newest.at AS at,
  newest.question AS question,
  newest.answer AS answer,
  newest.latency_ms AS latency_ms,
  clicked.documents AS clicked,
  stored.inferred AS inferred
FROM newest
LEFT JOIN clicked USING (trace_id)
LEFT JOIN stored USING (trace_id)
ORDER BY conversation_id, at, trace_id
