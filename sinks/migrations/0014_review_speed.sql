-- What the review ranks by, beside the wide columns that it is worked out of: reading a million
-- requests for it takes some milliseconds. Parts of older days are read as before until this is done.

-- 1 for an answer without any document, 1.5 for an error, 1 for a citation that points to none.
ALTER TABLE requests ADD COLUMN IF NOT EXISTS visible_faults Float32 MATERIALIZED
  (answer IS NOT NULL AND hasAny(flags, ['empty_retrieval', 'no_retrieval']))
  + 1.5 * (status = 'error')
  + arrayExists(rank -> NOT has(documents.rank, rank), citations);

ALTER TABLE requests ADD COLUMN IF NOT EXISTS trace_hash UInt64 MATERIALIZED cityHash64(trace_id)
  CODEC(NONE);

ALTER TABLE requests MATERIALIZE COLUMN visible_faults;

ALTER TABLE requests MATERIALIZE COLUMN trace_hash;
