-- Rows of requests by the time of writing; several versions of one come of late spans.
SELECT
  $__timeInterval(stored_at) AS time, count() AS versions, uniqExact(trace_id) AS requests
FROM requests
WHERE $__timeFilter(stored_at)
GROUP BY time
ORDER BY time
