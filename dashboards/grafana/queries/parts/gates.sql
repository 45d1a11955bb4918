-- What the release gate said in the time range, once for each two runs.
SELECT
  fromUnixTimestamp64Micro(JSONExtractInt(body, 'decided_at'), 'UTC') AS decided_at,
  JSONExtractString(body, 'new') AS new_run,
  JSONExtractString(body, 'old') AS old_run,
  JSONExtract(body, 'blocked', 'Array(String)') AS reasons,
  JSONExtract(body, 'warnings', 'Array(String)') AS warnings,
  if(empty(reasons), 'passed', 'blocked') AS result
FROM (
  SELECT name, body
  FROM states
  WHERE startsWith(name, 'gate ')
  ORDER BY version DESC
  LIMIT 1 BY name
)
WHERE $__timeFilter(decided_at)
