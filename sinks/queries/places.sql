-- Where some requests lie, in all their versions.
--
-- Parameters: trace_ids. They are given and not looked up here: only values are found by the
-- projection, for a subquery all requests are read.
--
-- Columns: `trace_id`, `filed_at`.
SELECT DISTINCT trace_id, filed_at
FROM requests
WHERE trace_id IN {trace_ids:Array(String)}
