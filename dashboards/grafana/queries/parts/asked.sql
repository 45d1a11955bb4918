-- The requests of the time range, each by its newest version, of the selected services and segments.
SELECT *
FROM (
  SELECT
    filed_at, trace_id, question, model, flags,
    ifNull(service, 'unknown') AS service, ifNull(segment, 'unknown') AS segment
  FROM requests
  WHERE $__timeFilter(filed_at)
  ORDER BY version DESC
  LIMIT 1 BY trace_id
)
WHERE {{ selected }}
