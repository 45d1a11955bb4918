-- What signals may name a request by. Of its spans only those that a signal does name: a request
-- has many, and each key is a row of the join. A column of which no signal names anything is not
-- even read.
arrayConcat(
  [concat('trace ', trace_id)],
  if(
    (SELECT count() > 0 FROM signals WHERE span_id IS NOT NULL),
    arrayMap(
      id -> concat('span ', id),
      arrayFilter(id -> id IN (SELECT span_id FROM signals WHERE span_id IS NOT NULL), span_ids)
    ),
    emptyArrayString()
  ),
  if(
    (SELECT count() > 0 FROM signals WHERE response_id IS NOT NULL),
    arrayMap(id -> concat('response ', id), response_ids),
    emptyArrayString()
  ),
  arrayMap(key -> assumeNotNull(key), arrayFilter(key -> key IS NOT NULL, [
    if(
      (SELECT count() > 0 FROM signals WHERE message_id IS NOT NULL),
      concat('message ', message_id), NULL
    ),
    if(
      (SELECT count() > 0 FROM signals WHERE conversation_id IS NOT NULL),
      concat('conversation ', conversation_id), NULL
    )
  ]))
)
