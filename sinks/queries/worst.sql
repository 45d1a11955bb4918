-- The worst conversations of a window, and why each is here.
--
-- Parameters
--   since, until    window of filed_at, the start of the request; until is excluded
--   segment         one segment, or '' for all
--   fingerprint     whose judgements count
--   limit           how many conversations
--
-- One row per conversation: conversation_id, or the trace id of a request without one. `badness`
-- is the sum of these columns; the first five add up over the conversation, the others are those
-- of its worst request (the one with the most of them and of signals of its own):
--   thumbs_down     3 each; a thumbs_up of negative value is one
--   low_rating      2 each rating that says no
--   rephrase, regenerate, abandon    1.5 each
--   contradicted    2 per contradicted claim, at most 2 claims
--   unsupported     1 per claim that the documents do not hold, at most 3 claims
--   low_lexical     1 - lexical score while there is no judged score
--   no_context      1 for an answer given without any document
--   failed_request  1.5 where the request ended in an error
--   stray_citation  1 where a citation points to no document
-- A signal that was taken back counts nothing. Conversations with a badness of 0 are left out.
--
-- Also: trace_ids and questions of the conversation in order of time (100 at most), and of its
-- worst request all that a reviewer reads: question, answer, documents, claims, score, ...;
-- `signals` are those of the whole conversation.
WITH
{{ current_signals }},
newest AS (
  SELECT
    trace_id, filed_at,
    ifNull(conversation_id, trace_id) AS conversation,
    ifNull(segment, 'unknown') AS segment,
    answer IS NOT NULL AS answered,
    status = 'error' AS broken,
    hasAny(flags, ['empty_retrieval', 'no_retrieval']) AS contextless,
    arrayExists(rank -> NOT has(documents.rank, rank), citations) AS stray,
    lexical_score,
    {{ request_keys }} AS keys
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
  ORDER BY version DESC
  LIMIT 1 BY trace_id
),
chosen AS (
  SELECT * FROM newest WHERE {segment:String} = '' OR segment = {segment:String}
),
verdicts AS (
  SELECT
    trace_id,
    status = 'judged' AS judged,
    countEqual(claims.verdict, 'CONTRADICTED') AS contradicted_claims,
    countEqual(claims.verdict, 'NOT_FOUND') AS unsupported_claims
  FROM judgements
  WHERE fingerprint = {fingerprint:String}
    AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY
    AND filed_at < {until:DateTime64(6, 'UTC')} + INTERVAL 1 DAY
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
),
hits AS (
  SELECT
    conversation,
    trace_id,
    signal_id,
    any(complaint) AS complaint,
    any(weight) AS weight,
    max(key NOT LIKE 'conversation %') AS direct,
    any(signal) AS signal
  FROM (SELECT conversation, trace_id, key FROM chosen ARRAY JOIN keys AS key) AS links
  INNER JOIN (
    SELECT signal_id, complaint, weight, {{ signal_tuple }} AS signal, key
    FROM current_signals ARRAY JOIN keys AS key
  ) AS marks USING (key)
  GROUP BY conversation, trace_id, signal_id
),
own_signals AS (
  SELECT trace_id, sum(weight) AS own_weight FROM hits WHERE direct GROUP BY trace_id
),
conversation_signals AS (
  SELECT
    conversation,
    sumIf(weight, complaint = 'thumbs_down') AS thumbs_down,
    sumIf(weight, complaint = 'low_rating') AS low_rating,
    sumIf(weight, complaint = 'rephrase') AS rephrase,
    sumIf(weight, complaint = 'regenerate') AS regenerate,
    sumIf(weight, complaint = 'abandon') AS abandon,
    arraySort(signal -> signal.3, groupArray(signal)) AS signals
  FROM (
    SELECT conversation, any(complaint) AS complaint, any(weight) AS weight, any(signal) AS signal
    FROM hits GROUP BY conversation, signal_id
  )
  GROUP BY conversation
),
scored AS (
  SELECT
    conversation, trace_id, filed_at, own_weight,
    2. * least(contradicted_claims, 2) AS contradicted,
    1. * least(unsupported_claims, 3) AS unsupported,
    if(judged OR lexical_score IS NULL, 0., 1 - assumeNotNull(lexical_score)) AS low_lexical,
    1. * (answered AND contextless) AS no_context,
    1.5 * broken AS failed_request,
    1. * stray AS stray_citation,
    contradicted + unsupported + low_lexical + no_context + failed_request + stray_citation
      AS faults
  FROM chosen
  LEFT JOIN verdicts USING (trace_id)
  LEFT JOIN own_signals USING (trace_id)
),
conversations AS (
  SELECT
    conversation,
    count() AS requests,
    min(filed_at) AS first_at,
    max(filed_at) AS last_at,
    arraySlice(arrayMap(pair -> pair.2, arraySort(groupArray((filed_at, trace_id)))), 1, 100)
      AS trace_ids,
    argMax(
      (trace_id, filed_at, faults, contradicted, unsupported, low_lexical, no_context,
       failed_request, stray_citation),
      (own_weight + faults, filed_at, trace_id)
    ) AS worst
  FROM scored
  GROUP BY conversation
),
ranking AS (
  SELECT
    conversation, requests, first_at, last_at, trace_ids, signals,
    thumbs_down, low_rating, rephrase, regenerate, abandon,
    worst.1 AS worst_trace_id,
    worst.2 AS worst_filed_at,
    worst.4 AS contradicted,
    worst.5 AS unsupported,
    worst.6 AS low_lexical,
    worst.7 AS no_context,
    worst.8 AS failed_request,
    worst.9 AS stray_citation,
    thumbs_down + low_rating + rephrase + regenerate + abandon + worst.3 AS badness
  FROM conversations
  LEFT JOIN conversation_signals USING (conversation)
  WHERE badness > 0
  ORDER BY badness DESC, last_at DESC, conversation
  LIMIT {limit:UInt32}
),
texts AS (
  SELECT trace_id, service, segment, model, started_at, question, answer, status, flags,
         error_stage, error_type, citations, lexical_score, {{ documents }} AS documents
  FROM requests
  WHERE (filed_at, trace_id) IN (SELECT worst_filed_at, worst_trace_id FROM ranking)
  ORDER BY version DESC
  LIMIT 1 BY trace_id
),
questions AS (
  SELECT
    conversation,
    arraySlice(
      arrayMap(turn -> turn.3, arraySort(turn -> (turn.1, turn.2), groupArray((filed_at, trace_id, question)))),
      1, 100
    ) AS questions
  FROM (
    SELECT ifNull(conversation_id, trace_id) AS conversation, filed_at, trace_id, question
    FROM requests
    WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
      AND trace_id IN (SELECT arrayJoin(trace_ids) FROM ranking)
    ORDER BY version DESC
    LIMIT 1 BY trace_id
  )
  GROUP BY conversation
),
details AS (
  SELECT trace_id, status, score, reason, {{ claims }} AS claims
  FROM judgements
  WHERE fingerprint = {fingerprint:String} AND trace_id IN (SELECT worst_trace_id FROM ranking)
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
)
SELECT
  ranking.conversation AS conversation,
  badness,
  thumbs_down, low_rating, rephrase, regenerate, abandon,
  contradicted, unsupported, low_lexical, no_context, failed_request, stray_citation,
  requests, first_at, last_at, trace_ids,
  questions.questions AS questions,
  ranking.signals AS signals,
  worst_trace_id,
  texts.service AS service,
  texts.segment AS segment,
  texts.model AS model,
  texts.started_at AS started_at,
  texts.question AS question,
  texts.answer AS answer,
  texts.documents AS documents,
  texts.citations AS citations,
  texts.status AS status,
  texts.error_stage AS error_stage,
  texts.error_type AS error_type,
  texts.flags AS flags,
  texts.lexical_score AS lexical_score,
  details.status AS judgement_status,
  details.score AS score,
  details.reason AS reason,
  details.claims AS claims
FROM ranking
LEFT JOIN texts ON texts.trace_id = ranking.worst_trace_id
LEFT JOIN details ON details.trace_id = ranking.worst_trace_id
LEFT JOIN questions ON questions.conversation = ranking.conversation
ORDER BY badness DESC, last_at DESC, conversation
