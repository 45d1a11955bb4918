CAST(
  arrayZip(
    documents.rank, documents.document_id, documents.chunk_id, documents.source, documents.title,
    documents.text, documents.cited
  ),
  'Array(Tuple(rank Int64, document_id Nullable(String), chunk_id Nullable(String), source Nullable(String), title Nullable(String), text Nullable(String), cited Nullable(Bool)))'
)
