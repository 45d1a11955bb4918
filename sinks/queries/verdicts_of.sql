-- What the judge says of some requests.
--
-- Parameters
--   trace_ids     of the requests
--   fingerprint   whose judgements to show
--
-- Columns, one row per request that was judged: trace_id, `judgement_status`, `score`, `reason`,
-- `judged_at`, `judged_version`, `claims`.
SELECT
  trace_id,
  status AS judgement_status,
  score,
  reason,
  judged_at,
  request_version AS judged_version,
  {{ claims }} AS claims
FROM judgements
WHERE fingerprint = {fingerprint:String} AND trace_id IN {trace_ids:Array(String)}
ORDER BY rank DESC
LIMIT 1 BY trace_id
