-- Judged answers over time by their score, not weighted by how rarely they are drawn.
SELECT
  $__timeInterval(filed_at) AS time,
  countIf(score = 1) AS `all`,
  countIf(score > 0 AND score < 1) AS `some`,
  countIf(score = 0) AS `none`
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
