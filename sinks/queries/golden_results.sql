-- What became of golden questions in the runs of the golden set, oldest run first.
--
-- Parameters
--   ids   of golden rows
--
-- Columns: `question_id`, `run_id`, `at` (when the run was begun), `diagnosis`. Only finished runs.
SELECT question_id, run_id, runs.started_at AS at, diagnosis
FROM (
  SELECT question_id, run_id, diagnosis
  FROM eval_rows
  WHERE question_id IN {ids:Array(String)}
  ORDER BY written_at DESC
  LIMIT 1 BY run_id, question_id
) AS results
INNER JOIN (
  SELECT run_id, started_at FROM eval_runs ORDER BY updated_at DESC LIMIT 1 BY run_id
) AS runs USING (run_id)
ORDER BY at, run_id, question_id
