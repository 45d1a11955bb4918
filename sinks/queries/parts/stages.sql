CAST(
  arrayZip(
    stages.kind, stages.name, stages.query, stages.latency_ms, stages.documents, stages.error
  ),
  'Array(Tuple(kind String, name Nullable(String), query Nullable(String), latency_ms Nullable(Float64), documents Nullable(Int64), error Nullable(String)))'
)
