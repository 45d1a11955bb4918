-- Scores over time, as they are: not weighted by how rarely they are drawn.
SELECT
  $__timeInterval(filed_at) AS time,
  quantileExact(0.1)(assumeNotNull(score)) AS `worst tenth`,
  quantileExact(0.5)(assumeNotNull(score)) AS median
FROM (
  SELECT filed_at, score
  FROM judgements
  WHERE $__timeFilter(filed_at) AND fingerprint = ${judge:sqlstring} AND status = 'judged'
    AND trace_id IN (SELECT trace_id FROM ({{ asked }}))
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
)
GROUP BY time
ORDER BY time
