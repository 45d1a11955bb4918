-- The requests of one conversation by their newest versions, oldest first.
--
-- Parameters
--   conversation       a conversation id, or the trace id of a request without one
--   times, trace_ids   of its requests, see conversation_places.sql
--
-- Columns: those of the request, with `documents` and `stages` as tuples.
SELECT
  trace_id, version, filed_at, started_at, service, segment, conversation_id, user_id, question,
  answer,
  {{ documents }} AS documents,
  {{ stages }} AS stages,
  retriever_stages, reranker_stages, citations, model, latency_ms, cost_usd, status, error_stage,
  error_type, error_message, flags, sampled, probability, lexical_score, ineligible, span_ids,
  response_ids, message_id
FROM (
  SELECT *
  FROM requests
  WHERE filed_at IN {times:Array(DateTime64(6, 'UTC'))} AND trace_id IN {trace_ids:Array(String)}
  ORDER BY version DESC
  LIMIT 1 BY trace_id
)
WHERE conversation_id = {conversation:String} OR trace_id = {conversation:String}
ORDER BY filed_at, trace_id
