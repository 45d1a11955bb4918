CAST(
  arrayZip(
    documents.rank, documents.document_id, documents.chunk_id, documents.source, documents.title,
    documents.text, documents.cited, documents.score, documents.score_kind
  ),
  'Array(Tuple(rank Int64, document_id Nullable(String), chunk_id Nullable(String), source Nullable(String), title Nullable(String), text Nullable(String), cited Nullable(Bool), score Nullable(Float64), score_kind Nullable(String)))'
)
