-- What happened to golden candidates, oldest first.
--
-- Parameters
--   ids         of candidates
--   trace_ids   of requests: all events of candidates that came of them
--               both empty: all events of all candidates
--
-- Columns: `candidate_id`, `happened_at`, `event_id`, `event`, `actor`, `trace_id`, `payload` (JSON).
SELECT candidate_id, happened_at, event_id, event, actor, trace_id, payload
FROM candidates
WHERE (empty({ids:Array(String)}) AND empty({trace_ids:Array(String)}))
  OR candidate_id IN {ids:Array(String)}
  OR candidate_id IN (
    SELECT candidate_id FROM candidates WHERE trace_id IN {trace_ids:Array(String)}
  )
ORDER BY candidate_id, happened_at, event_id
LIMIT 1 BY candidate_id, happened_at, event_id
