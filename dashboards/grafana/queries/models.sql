-- Requests by the model that answered, over time.
SELECT $__timeInterval(filed_at) AS time, ifNull(model, 'unknown') AS model, count() AS requests
FROM ({{ asked }})
GROUP BY time, model
ORDER BY time
