-- Judgements by the time they were made, and those of them that failed.
SELECT
  $__timeInterval(judged_at) AS time, count() AS judgements, countIf(status = 'failed') AS failed
FROM (
  SELECT assumeNotNull(judged_at) AS judged_at, status
  FROM judgements
  WHERE $__timeFilter(filed_at) AND judged_at IS NOT NULL AND fingerprint = ${judge:sqlstring}
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
)
GROUP BY time
ORDER BY time
