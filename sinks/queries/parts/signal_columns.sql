-- A signal as readers count it. `keys` are the things it may hang on: trace, span, response, message,
-- conversation. Comments are left out: a signal meets each request of its conversation, and they
-- would fill the memory.
SELECT
  signal_id, kind, occurred_at, sentiment, source,
  CAST(
    (signal_id, kind, occurred_at, value, sentiment, document_id, source, complaint,
     confidence, reason),
    'Tuple(signal_id String, kind String, occurred_at DateTime64(6, \'UTC\'), value Nullable(Float64), sentiment Int8, document_id Nullable(String), source String, complaint String, confidence Nullable(Float64), reason Nullable(String))'
  ) AS signal,
  {{ complaint }} AS complaint,
  -- One that was inferred weighs as much as it is sure.
  transform(
    complaint,
    ['thumbs_down', 'low_rating', 'rephrase', 'push_back', 'regenerate', 'abandon', 'repeated_clicks'],
    [3., 2., 1.5, 1.5, 1.5, 1.5, 0.5],
    0.
  ) * if(source = 'inferred', ifNull(confidence, 0.), 1.) AS weight,
  arrayMap(key -> assumeNotNull(key), arrayFilter(key -> key IS NOT NULL, [
    concat('trace ', trace_id), concat('span ', span_id), concat('response ', response_id),
    concat('message ', message_id), concat('conversation ', conversation_id)
  ])) AS keys
