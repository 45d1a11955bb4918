-- Questions on which the newest run scores below the one before, worst first.
{{ two_runs }}
SELECT
  question_id,
  any(segment) AS segment,
  measure,
  sumIf(value, age = 2) AS before,
  sumIf(value, age = 1) AS after
FROM measured
WHERE measure IN ('faithfulness', 'correctness', 'context_recall', 'refusal')
GROUP BY question_id, measure
HAVING uniqExact(age) = 2 AND after < before
ORDER BY after - before, question_id
LIMIT 30
