-- By how much the newest run differs from the one before, over the questions that both measured.
{{ two_runs }}
SELECT
  measure,
  count() AS questions,
  avg(before) AS mean_before,
  avg(after) AS mean_after,
  avg(change) AS mean_change,
  1.96 * stddevSampStable(change) / sqrt(count()) AS half_width,
  multiIf(
    abs(mean_change) <= half_width, 'not shown',
    (mean_change > 0)
      != (measure IN ('wrong_refusal', 'latency_ms', 'input_tokens', 'output_tokens', 'cost_usd')),
    'better',
    'worse'
  ) AS verdict
FROM (
  SELECT
    measure, question_id, sumIf(value, age = 2) AS before, sumIf(value, age = 1) AS after,
    after - before AS change
  FROM measured
  GROUP BY measure, question_id
  HAVING uniqExact(age) = 2
)
GROUP BY measure
HAVING questions > 1
ORDER BY verdict = 'worse' DESC, measure
