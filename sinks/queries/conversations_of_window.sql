-- The conversations that have a request in a window.
--
-- Parameters: since, until (window of filed_at, the start of the request; until is excluded).
--
-- Columns: conversation_id, each once.
SELECT DISTINCT assumeNotNull(conversation_id) AS conversation_id
FROM requests
WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
  AND requests.conversation_id IS NOT NULL
ORDER BY conversation_id
