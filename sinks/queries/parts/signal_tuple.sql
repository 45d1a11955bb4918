CAST(
  (signal_id, kind, occurred_at, value, sentiment, comment, document_id, source),
  'Tuple(signal_id String, kind String, occurred_at DateTime64(6, \'UTC\'), value Nullable(Float64), sentiment Int8, comment Nullable(String), document_id Nullable(String), source String)'
)
