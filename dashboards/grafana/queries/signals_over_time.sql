-- Complaints and praise by the time they are about.
SELECT
  $__timeInterval(occurred_at) AS time,
  countIf(sentiment < 0 AND source != 'inferred') AS `complaints sent`,
  countIf(sentiment < 0 AND source = 'inferred') AS `complaints inferred`,
  countIf(sentiment > 0) AS praise
FROM ({{ signals_now }})
GROUP BY time
ORDER BY time
