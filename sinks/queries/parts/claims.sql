CAST(
  arrayZip(claims.text, claims.verdict, claims.quote, claims.document_rank, claims.note),
  'Array(Tuple(text String, verdict String, quote Nullable(String), document_rank Nullable(Int64), note Nullable(String)))'
)
