-- What the requests of the time range lack, by their flags.
SELECT flag, count() AS requests, max(filed_at) AS last_seen, argMax(trace_id, filed_at) AS trace_id
FROM ({{ asked }})
ARRAY JOIN if(empty(flags), ['nothing'], arrayMap(one -> toString(one), flags)) AS flag
GROUP BY flag
ORDER BY requests DESC
