-- Who sends signals at all: how far thumbs and comments speak for all users.
--
-- Parameters: since, until (window of filed_at, the start of the request; until is excluded).
--
-- Columns, a row per segment ('unknown' where a request has none)
--   requests, conversations (a request without one is its own)
--   engaged    conversations with at least one signal that was sent, not inferred, and not revoked
WITH
{{ current_signals }},
newest AS (
  SELECT
    trace_id,
    ifNull(conversation_id, trace_id) AS conversation,
    ifNull(segment, 'unknown') AS segment,
    {{ request_keys }} AS keys
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
  ORDER BY version DESC
  LIMIT 1 BY trace_id
),
engaged AS (
  SELECT DISTINCT conversation
  FROM newest ARRAY JOIN keys AS key
  WHERE key IN (SELECT arrayJoin(keys) FROM current_signals WHERE source != 'inferred')
)
SELECT
  segment,
  count() AS requests,
  uniqExact(conversation) AS conversations,
  uniqExactIf(conversation, conversation IN (SELECT conversation FROM engaged)) AS engaged
FROM newest
GROUP BY segment
ORDER BY segment
