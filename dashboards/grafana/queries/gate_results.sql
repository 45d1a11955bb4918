-- The last results of the release gate: why a run was blocked, or what could not be excluded.
SELECT
  decided_at AS time, new_run, old_run, result,
  arrayStringConcat(if(empty(reasons), warnings, reasons), '; ') AS why
FROM ({{ gates }})
ORDER BY time DESC
LIMIT 30
