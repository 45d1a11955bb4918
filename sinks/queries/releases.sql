-- When each version of an assistant was first seen.
--
-- No parameters.
--
-- Columns, one row per service and version, earliest first: service, version, first_seen (UTC).
SELECT
  JSONExtractString(body, 'service') AS service,
  JSONExtractString(body, 'version') AS version,
  fromUnixTimestamp64Micro(JSONExtractInt(body, 'first_seen'), 'UTC') AS first_seen
FROM (
  SELECT name, body
  FROM states
  WHERE startsWith(name, 'release ')
  ORDER BY states.version DESC
  LIMIT 1 BY name
)
ORDER BY first_seen, service, version
