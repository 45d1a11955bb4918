-- What the requests of a window lack for being monitored: counts by what they have in common.
--
-- Parameters
--   since, until   window of filed_at, the start of the request; until is excluded
--   segment        one segment, or '' for all
--
-- Columns: the fields of collector.doctor.seen.Seen, which says what they mean. The newest 20,000
-- requests of the window are looked at: their texts must be read to see which are there.
--
-- Where texts may not be stored, whether there were any is told by the reason why a request could
-- not be judged, which was found while they were there; `content_missing` does not say which.
WITH
recent AS (
  SELECT filed_at, trace_id
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
    AND ({segment:String} = '' OR segment = {segment:String})
  GROUP BY filed_at, trace_id
  ORDER BY filed_at DESC
  LIMIT 20000
),
newest AS (
  SELECT *, ifNull(ineligible, '') AS why
  FROM requests
  WHERE (filed_at, trace_id) IN (SELECT filed_at, trace_id FROM recent)
  ORDER BY version DESC
  LIMIT 1 BY trace_id
)
SELECT
  newest.service AS service,
  newest.conventions AS conventions,
  newest.question IS NOT NULL OR why NOT IN ('no_question', 'content_missing') AS question,
  newest.answer IS NOT NULL
    OR why NOT IN ('no_question', 'no_answer', 'content_missing') AS answer,
  has(flags, 'tool_call_answer') AS answered_by_tool_call,
  status = 'error' AS failed,
  NOT has(flags, 'no_retrieval') AS searched,
  has(flags, 'empty_retrieval') AS found_nothing,
  notEmpty(`documents.rank`) AS documents,
  why IN ('', 'no_claims') OR arrayExists(text -> text IS NOT NULL, `documents.text`) AS texts,
  arrayAll(
    (id, page) -> id IS NOT NULL OR page IS NOT NULL, `documents.document_id`, `documents.source`
  ) AS sources,
  conversation_id IS NOT NULL AS conversation,
  user_id IS NOT NULL AS user,
  llm_calls > 0 AS called,
  newest.model IS NOT NULL AS model,
  input_tokens IS NOT NULL AND output_tokens IS NOT NULL AS tokens,
  ttft_ms IS NOT NULL AS streamed,
  latency_ms IS NOT NULL AS timed,
  has(flags, 'truncated') AS truncated,
  has(flags, 'attributes_dropped') AS attributes_dropped,
  has(flags, 'partial') AS partial,
  count() AS count,
  any(trace_id) AS example
FROM newest
GROUP BY ALL
ORDER BY count DESC, example
