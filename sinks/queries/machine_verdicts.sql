-- What a judge says of the claims of some requests.
--
-- Parameters
--   trace_ids     of the requests
--   fingerprint   of the judge
--
-- Columns: `trace_id`, `claim`, `verdict`; by the current judgement.
SELECT trace_id, one.1 AS claim, any(one.2) AS verdict
FROM (
  SELECT trace_id, {{ claims }} AS claims
  FROM judgements
  WHERE fingerprint = {fingerprint:String} AND scorer = 'faithfulness'
    AND trace_id IN {trace_ids:Array(String)}
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
)
ARRAY JOIN claims AS one
GROUP BY trace_id, claim
ORDER BY trace_id, claim
