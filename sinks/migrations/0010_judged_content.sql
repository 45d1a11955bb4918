-- A hash of what was judged: question, answer and documents. Identical content under one fingerprint
-- is not judged, nor paid, twice. Empty for judges that cost nothing and for older rows.
ALTER TABLE judgements ADD COLUMN IF NOT EXISTS content_hash String DEFAULT '' CODEC(ZSTD(1));
ALTER TABLE judgements ADD INDEX IF NOT EXISTS content_hash_bloom content_hash
  TYPE bloom_filter(0.001) GRANULARITY 1;
