-- What people say about some requests: the latest word of each person on each claim, and on each
-- answer as a whole (claim = ''). One that was taken back has neither verdict, cause nor note.
--
-- Parameters
--   trace_ids   of the requests
SELECT
  trace_id, claim, labeller, labelled_at, verdict, cause, note, blind, drawn, probability,
  machine_verdict
FROM (
  SELECT *
  FROM labels
  WHERE trace_id IN {trace_ids:Array(String)}
  ORDER BY labelled_at DESC
  LIMIT 1 BY trace_id, claim, labeller
)
ORDER BY trace_id, claim, labelled_at, labeller
