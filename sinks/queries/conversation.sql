-- Everything about one conversation: a row per request, oldest first; of a long one the requests
-- nearest to its worst in time.
--
-- Parameters
--   conversation    a conversation id, or the trace id of a request without one
--   worst           the trace id of its worst request
--   turns           most requests returned
--   fingerprint     whose judgement to show
--
-- Columns: the request by its newest version with `documents` as tuples; `judgement_status`
-- ('' while there is none), `score`, `reason`, `judged_at`, `judged_version`, `claims`; `signals`
-- on this request and `conversation_signals` on the conversation as a whole, the oldest 50 of
-- each; `turns_total`, how many requests there are.
WITH
{{ current_signals }},
all_places AS (
  SELECT filed_at, trace_id FROM requests WHERE conversation_id = {conversation:String}
  UNION DISTINCT
  SELECT filed_at, trace_id FROM requests WHERE trace_id = {conversation:String}
),
places AS (
  SELECT filed_at, trace_id, count() OVER () AS turns_total
  FROM all_places
  ORDER BY
    trace_id = {worst:String} DESC,
    abs(dateDiff('microsecond', filed_at,
      (SELECT max(filed_at) FROM all_places WHERE trace_id = {worst:String}))),
    trace_id
  LIMIT {turns:UInt32}
),
newest AS (
  SELECT *, {{ documents }} AS documents, {{ stages }} AS stages, {{ request_keys }} AS keys
  FROM requests
  WHERE (filed_at, trace_id) IN (SELECT filed_at, trace_id FROM places)
  ORDER BY version DESC
  LIMIT 1 BY trace_id
),
verdicts AS (
  SELECT trace_id, status, score, reason, judged_at, request_version, {{ claims }} AS claims
  FROM judgements
  WHERE fingerprint = {fingerprint:String} AND trace_id IN (SELECT trace_id FROM places)
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
),
links AS (
  SELECT trace_id, key FROM newest ARRAY JOIN keys AS key
),
{{ hits }},
shown AS (
  SELECT
    trace_id,
    arraySlice(arraySort(signal -> signal.3, groupUniqArrayIf(signal, direct)), 1, 50) AS signals,
    arraySlice(arraySort(signal -> signal.3, groupUniqArrayIf(signal, NOT direct)), 1, 50)
      AS conversation_signals
  FROM hits
  GROUP BY trace_id
)
SELECT
  newest.trace_id AS trace_id,
  newest.version AS version,
  newest.filed_at AS filed_at,
  newest.started_at AS started_at,
  newest.service AS service,
  newest.segment AS segment,
  newest.conversation_id AS conversation_id,
  newest.user_id AS user_id,
  newest.question AS question,
  newest.answer AS answer,
  newest.documents AS documents,
  newest.stages AS stages,
  newest.retriever_stages AS retriever_stages,
  newest.reranker_stages AS reranker_stages,
  newest.citations AS citations,
  newest.model AS model,
  newest.latency_ms AS latency_ms,
  newest.cost_usd AS cost_usd,
  newest.status AS status,
  newest.error_stage AS error_stage,
  newest.error_type AS error_type,
  newest.error_message AS error_message,
  newest.flags AS flags,
  newest.sampled AS sampled,
  newest.probability AS probability,
  newest.lexical_score AS lexical_score,
  newest.ineligible AS ineligible,
  verdicts.status AS judgement_status,
  verdicts.score AS score,
  verdicts.reason AS reason,
  verdicts.judged_at AS judged_at,
  verdicts.request_version AS judged_version,
  verdicts.claims AS claims,
  shown.signals AS signals,
  shown.conversation_signals AS conversation_signals,
  places.turns_total AS turns_total
FROM newest
INNER JOIN places USING (trace_id)
LEFT JOIN verdicts USING (trace_id)
LEFT JOIN shown USING (trace_id)
WHERE newest.conversation_id = {conversation:String} OR newest.trace_id = {conversation:String}
ORDER BY filed_at, trace_id
