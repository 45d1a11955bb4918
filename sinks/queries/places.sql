-- Where the requests of some conversations lie, in all their versions: in one of them a request may
-- belong to another conversation.
--
-- Parameters
--   conversations   conversation ids, or trace ids of requests without one
--
-- Columns: `trace_id`, `filed_at`.
SELECT DISTINCT trace_id, filed_at
FROM requests
WHERE trace_id IN (
  SELECT trace_id FROM requests WHERE conversation_id IN {conversations:Array(String)}
  UNION ALL
  SELECT arrayJoin({conversations:Array(String)})
)
