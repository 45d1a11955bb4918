-- What happened to golden candidates, at any time.
SELECT event AS step, uniqExact(candidate_id) AS candidates, max(happened_at) AS last_at
FROM candidates
GROUP BY step
ORDER BY candidates DESC
