-- User signals of a window by kind and segment, those that were sent apart from those inferred.
--
-- Parameters: since, until (window of occurred_at; until is excluded).
--
-- Columns
--   segment      of the request the signal hangs on, by trace, span, response, message or
--                conversation; 'unknown' while that request is not there, or where it is more than
--                31 days older than the window
--   kind, inferred, signals, positive, negative (by sentiment), matched (request found)
--
-- One that was inferred is left out where one of its kind was sent about the same request.
WITH
{{ current_signals }},
wanted AS (
  SELECT signal_id, kind, source, sentiment, keys
  FROM current_signals
  WHERE occurred_at >= {since:DateTime64(6, 'UTC')} AND occurred_at < {until:DateTime64(6, 'UTC')}
),
named AS (
  SELECT trace_id, span_id, response_id, message_id, conversation_id
  FROM signals FINAL
  WHERE NOT revoked
    AND occurred_at >= {since:DateTime64(6, 'UTC')} AND occurred_at < {until:DateTime64(6, 'UTC')}
),
places AS (
  SELECT key, argMax((ifNull(segment, 'unknown'), trace_id), (filed_at, version)) AS place
  FROM (
    SELECT segment, trace_id, filed_at, version, {{ request_keys }} AS keys
    FROM requests
    WHERE filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 31 DAY
      AND filed_at < {until:DateTime64(6, 'UTC')} + INTERVAL 1 DAY
      AND {{ is_named }}
  )
  ARRAY JOIN keys AS key
  GROUP BY key
),
matched AS (
  -- A signal with several keys counts once, by the first that leads to a request.
  SELECT signal_id, any(kind) AS kind, any(source) = 'inferred' AS inferred,
         any(sentiment) AS sentiment,
         argMax(places.place, (places.place.1 != '', -position)) AS place
  FROM (SELECT signal_id, kind, source, sentiment, key, position FROM wanted ARRAY JOIN keys AS key, arrayEnumerate(keys) AS position) AS asked
  LEFT JOIN places USING (key)
  GROUP BY signal_id
),
told AS (
  SELECT *, max(NOT inferred AND place.2 != '') OVER (PARTITION BY kind, place.2) AS sent
  FROM matched
)
SELECT
  if(place.1 = '', 'unknown', place.1) AS segment,
  kind,
  inferred,
  count() AS signals,
  countIf(sentiment > 0) AS positive,
  countIf(sentiment < 0) AS negative,
  countIf(place.1 != '') AS matched
FROM told
WHERE NOT (inferred AND sent)
GROUP BY segment, kind, inferred
ORDER BY segment, kind, inferred
