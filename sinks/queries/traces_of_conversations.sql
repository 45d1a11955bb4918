-- The requests of some conversations, and those that are one of their own. In another version a request may
-- belong to another conversation.
--
-- Parameters
--   conversations   conversation ids, or trace ids of requests without one
--
-- Columns: `trace_id`.
SELECT DISTINCT trace_id FROM requests WHERE conversation_id IN {conversations:Array(String)}
UNION DISTINCT
SELECT arrayJoin({conversations:Array(String)}) AS trace_id
