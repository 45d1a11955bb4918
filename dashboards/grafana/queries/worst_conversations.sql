-- The worst conversations, as the review ranks them.
SELECT
  badness, segment, question, contradicted / 2 AS contradicted_claims,
  unsupported AS unsupported_claims, worst_trace_id AS trace_id
FROM ({{ worst }})
WHERE {{ selected }}
ORDER BY badness DESC
