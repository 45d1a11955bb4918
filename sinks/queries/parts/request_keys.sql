arrayConcat(
  [concat('trace ', trace_id)],
  arrayMap(id -> concat('response ', id), response_ids),
  arrayMap(key -> assumeNotNull(key), arrayFilter(key -> key IS NOT NULL, [
    concat('message ', message_id), concat('conversation ', conversation_id)
  ]))
)
