-- Spans of traces that tell of no request yet, kept as long as raw spans are: the rest may come
-- after a restart. Small granules, because a granule is what one look-up unpacks.
CREATE TABLE IF NOT EXISTS fragments (
  trace_id String,
  version UInt64,
  batch_id String CODEC(ZSTD(1)),
  stored_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
  body_bytes UInt64,
  body String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(stored_at)
ORDER BY (trace_id, version)
TTL toDateTime(stored_at) + toIntervalHour(48)
SETTINGS
  index_granularity_bytes = 262144,
  ttl_only_drop_parts = 1,
  fsync_after_insert = 1,
  fsync_part_directory = 1;
