-- What signals may name a request by. Of its spans only those that a signal does name: a request
-- has many, and each key is a row of the join.
arrayConcat(
  [concat('trace ', trace_id)],
  arrayMap(
    id -> concat('span ', id),
    arrayFilter(id -> id IN (SELECT span_id FROM signals WHERE span_id IS NOT NULL), span_ids)
  ),
  arrayMap(id -> concat('response ', id), response_ids),
  arrayMap(key -> assumeNotNull(key), arrayFilter(key -> key IS NOT NULL, [
    concat('message ', message_id), concat('conversation ', conversation_id)
  ]))
)
