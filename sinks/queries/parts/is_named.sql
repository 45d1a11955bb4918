-- Whether one of the signals in `named` hangs on a request. A column of which no signal names
-- anything is not even read.
(
  trace_id IN (SELECT trace_id FROM named WHERE trace_id IS NOT NULL)
  OR if(
    (SELECT count() > 0 FROM signals WHERE conversation_id IS NOT NULL),
    ifNull(
      conversation_id IN (SELECT conversation_id FROM named WHERE conversation_id IS NOT NULL), false
    ),
    false
  )
  OR if(
    (SELECT count() > 0 FROM signals WHERE message_id IS NOT NULL),
    ifNull(message_id IN (SELECT message_id FROM named WHERE message_id IS NOT NULL), false),
    false
  )
  OR if(
    (SELECT count() > 0 FROM signals WHERE response_id IS NOT NULL),
    arrayExists(
      id -> id IN (SELECT response_id FROM named WHERE response_id IS NOT NULL), response_ids
    ),
    false
  )
  OR if(
    (SELECT count() > 0 FROM signals WHERE span_id IS NOT NULL),
    arrayExists(id -> id IN (SELECT span_id FROM named WHERE span_id IS NOT NULL), span_ids),
    false
  )
)
