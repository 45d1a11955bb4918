-- The newest complaints that name the trace of their request.
SELECT
  said.occurred_at AS time, kind, if(source = 'inferred', 'inferred', 'sent') AS told,
  ifNull(confidence, 1) AS sure, asked.segment AS segment, asked.question AS question,
  ifNull(reason, comment) AS words, asked.trace_id AS trace_id
FROM (
  SELECT
    occurred_at, kind, source, confidence, reason, comment, assumeNotNull(trace_id) AS trace_id
  FROM ({{ signals_now }})
  WHERE sentiment < 0 AND trace_id IS NOT NULL
) AS said
INNER JOIN ({{ asked }}) AS asked ON said.trace_id = asked.trace_id
ORDER BY time DESC
LIMIT 50
