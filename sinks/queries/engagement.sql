-- Who sends signals at all: how far thumbs and comments speak for all users.
--
-- Parameters: since, until (window of filed_at, the start of the request; until is excluded).
--
-- Columns, a row per segment ('unknown' where a request has none)
--   requests, conversations (a request without one is its own)
--   engaged    conversations with at least one signal that was sent, not inferred, and not revoked
WITH
named AS (
  SELECT trace_id, span_id, response_id, message_id, conversation_id
  FROM signals FINAL
  WHERE NOT revoked AND source != 'inferred'
),
revised AS (
  SELECT trace_hash
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
  GROUP BY trace_hash
  HAVING count() > 1
),
-- Few requests have more than one version, and only those are sorted. Conversations by a hash of
-- their ids: numbers are faster to count than texts.
newest AS (
  SELECT sipHash64(ifNull(conversation_id, trace_id)) AS conversation, segment
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
    AND trace_hash NOT IN revised
  UNION ALL
  SELECT conversation, segment
  FROM (
    SELECT sipHash64(ifNull(conversation_id, trace_id)) AS conversation, segment
    FROM requests
    WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
      AND trace_hash IN revised
    ORDER BY version DESC
    LIMIT 1 BY trace_id
  )
),
engaged AS (
  SELECT conversation
  FROM (
    SELECT
      sipHash64(ifNull(conversation_id, trace_id)) AS conversation,
      {{ is_named }} AS engages
    FROM requests
    WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
      AND trace_hash IN (
        SELECT trace_hash
        FROM requests
        WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
          AND {{ is_named }}
      )
    ORDER BY version DESC
    LIMIT 1 BY trace_id
  )
  WHERE engages
)
SELECT
  ifNull(segment, 'unknown') AS segment,
  count() AS requests,
  uniqExact(conversation) AS conversations,
  uniqExactIf(conversation, conversation IN engaged) AS engaged
FROM newest
GROUP BY segment
ORDER BY segment
