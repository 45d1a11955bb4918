-- How many questions of each run have which finding.
SELECT run_id, ifNull(diagnosis, 'none') AS finding, count() AS questions
FROM (
  SELECT run_id, question_id, diagnosis
  FROM eval_rows
  WHERE run_id IN (SELECT run_id FROM ({{ runs }}))
  ORDER BY written_at DESC
  LIMIT 1 BY run_id, question_id
)
GROUP BY run_id, finding
ORDER BY run_id DESC, questions DESC
