-- One row per received signal; readers take the highest rank of a signal_id.
--
-- rank orders by occurred_at, then by received_at: occurred microseconds * 2^64 + received
-- microseconds. filed_at is received_at, our own clock, so a sender's clock cannot make partitions.
CREATE TABLE IF NOT EXISTS signals (
  signal_id String,
  rank UInt128,
  filed_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
  batch_id String CODEC(ZSTD(1)),
  kind LowCardinality(String),
  occurred_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
  received_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
  trace_id Nullable(String),
  response_id Nullable(String),
  message_id Nullable(String),
  conversation_id Nullable(String),
  value Nullable(Float64),
  raw_value Nullable(String),
  sentiment Int8,
  comment Nullable(String) CODEC(ZSTD(3)),
  document_id Nullable(String),
  user_id Nullable(String),
  source LowCardinality(String),
  revoked Bool
)
ENGINE = ReplacingMergeTree(rank)
PARTITION BY toMonday(filed_at)
ORDER BY signal_id
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1;
