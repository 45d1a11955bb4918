-- Where the requests of one conversation lie; of a long one those nearest to its worst in time.
--
-- Parameters
--   conversation    a conversation id, or the trace id of a request without one
--   worst           the trace id of its worst request
--   turns           most requests returned
--
-- Columns: `filed_at`, `trace_id`; `turns_total`, how many there are. A request that belongs to
-- another conversation by its newest version is among them.
SELECT
  filed_at,
  trace_id,
  count() OVER () AS turns_total
FROM (
  SELECT filed_at, trace_id FROM requests WHERE conversation_id = {conversation:String}
  UNION DISTINCT
  SELECT filed_at, trace_id FROM requests WHERE trace_id = {conversation:String}
)
ORDER BY
  trace_id = {worst:String} DESC,
  if(
    countIf(trace_id = {worst:String}) OVER () > 0,
    abs(dateDiff('microsecond', filed_at, maxIf(filed_at, trace_id = {worst:String}) OVER ())),
    0
  ),
  trace_id
LIMIT {turns:UInt32}
