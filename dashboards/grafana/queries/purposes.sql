-- What judgements were asked for, and how they ended.
SELECT purpose, status, count() AS judgements
FROM (
  SELECT purpose, status
  FROM judgements
  WHERE $__timeFilter(filed_at) AND fingerprint = ${judge:sqlstring}
  ORDER BY rank DESC
  LIMIT 1 BY trace_id, scorer
)
GROUP BY purpose, status
ORDER BY purpose, status
