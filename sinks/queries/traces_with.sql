-- The telemetry of traces that hold a text, such as the name of an attribute, newest version each.
--
-- Parameters
--   since, until   window of filed_at, the start of the request; until is excluded
--   text           what the telemetry must hold
--
-- Columns: `body`, the encoded trace in base64, oldest first; at most the newest 10,000 traces.
-- Telemetry is kept for store.late_spans_hours, and only with store.content: full.
SELECT base64Encode(newest) AS body
FROM (
  SELECT min(filed_at) AS started, argMax(telemetry.body, version) AS newest
  FROM telemetry
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
    AND position(telemetry.body, {text:String}) > 0
  GROUP BY trace_id
  ORDER BY started DESC
  LIMIT 10000
)
ORDER BY started
