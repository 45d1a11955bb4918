-- The signals on some requests, and on their conversations.
--
-- Parameters
--   requests, keys   pairs: the trace id of a request, and what a signal may name it by, such as
--                    'span 1a2b'; see request_keys.sql
--   trace_ids, span_ids, response_ids, message_ids, conversation_ids   the same by kind
--
-- Columns, one row per request with signals: trace_id; `signals` on this request and
-- `conversation_signals` on the conversation as a whole, the oldest 50 of each.
WITH
current_signals AS (
  {{ signal_columns }}
  FROM (
    SELECT *
    FROM signals
    WHERE signal_id IN (
      SELECT signal_id
      FROM signals
      WHERE trace_id IN {trace_ids:Array(String)}
        OR span_id IN {span_ids:Array(String)}
        OR response_id IN {response_ids:Array(String)}
        OR message_id IN {message_ids:Array(String)}
        OR conversation_id IN {conversation_ids:Array(String)}
    )
    ORDER BY rank DESC
    LIMIT 1 BY signal_id
  )
  WHERE NOT revoked
),
links AS (
  SELECT trace_id, key
  FROM (SELECT {requests:Array(String)} AS trace_id, {keys:Array(String)} AS key)
  ARRAY JOIN trace_id, key
),
{{ hits }}
SELECT
  trace_id,
  arraySlice(arraySort(signal -> signal.3, groupUniqArrayIf(signal, direct)), 1, 50) AS signals,
  arraySlice(arraySort(signal -> signal.3, groupUniqArrayIf(signal, NOT direct)), 1, 50)
    AS conversation_signals
FROM hits
GROUP BY trace_id
