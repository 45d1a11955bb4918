-- User signals of a window by kind and segment.
--
-- Parameters: since, until (window of occurred_at; until is excluded).
--
-- Columns
--   segment      of the request the signal hangs on, by trace, response, message or conversation;
--                'unknown' while that request is not there
--   kind, signals, positive, negative (by sentiment), matched (request found)
WITH
{{ current_signals }},
wanted AS (
  SELECT signal_id, kind, sentiment, keys
  FROM current_signals
  WHERE occurred_at >= {since:DateTime64(6, 'UTC')} AND occurred_at < {until:DateTime64(6, 'UTC')}
),
places AS (
  SELECT key, argMax(ifNull(segment, 'unknown'), (filed_at, version)) AS segment
  FROM (SELECT segment, filed_at, version, {{ request_keys }} AS keys FROM requests)
  ARRAY JOIN keys AS key
  WHERE key IN (SELECT arrayJoin(keys) FROM wanted)
  GROUP BY key
),
matched AS (
  -- A signal with several keys counts once, by the first that leads to a request.
  SELECT signal_id, any(kind) AS kind, any(sentiment) AS sentiment,
         argMax(places.segment, (places.segment != '', -position)) AS segment
  FROM (SELECT signal_id, kind, sentiment, key, position FROM wanted ARRAY JOIN keys AS key, arrayEnumerate(keys) AS position) AS asked
  LEFT JOIN places USING (key)
  GROUP BY signal_id
)
SELECT
  if(matched.segment = '', 'unknown', matched.segment) AS segment,
  kind,
  count() AS signals,
  countIf(sentiment > 0) AS positive,
  countIf(sentiment < 0) AS negative,
  countIf(matched.segment != '') AS matched
FROM matched
GROUP BY segment, kind
ORDER BY segment, kind
