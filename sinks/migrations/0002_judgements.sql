-- One row per judgement; readers take the highest rank of (trace_id, scorer, fingerprint).
--
-- rank orders first by the version of the request that was judged, then by the time of judging:
-- request_version * 2^64 + microseconds of judged_at. filed_at is that of the judged request.
CREATE TABLE IF NOT EXISTS judgements (
  fingerprint LowCardinality(String),
  scorer LowCardinality(String),
  trace_id String,
  rank UInt128,
  filed_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
  batch_id String CODEC(ZSTD(1)),
  request_version UInt64,
  judged_at Nullable(DateTime64(6, 'UTC')),
  duration_ms Nullable(Float64),
  status LowCardinality(String),
  score Nullable(Float64),
  reason LowCardinality(Nullable(String)),
  claims Nested (
    text String,
    verdict LowCardinality(String),
    quote Nullable(String),
    document_rank Nullable(Int64),
    note LowCardinality(Nullable(String))
  ) CODEC(ZSTD(3)),
  engine LowCardinality(String),
  model LowCardinality(Nullable(String)),
  input_tokens Int64,
  output_tokens Int64,
  cached_tokens Int64,
  cost_usd Nullable(Float64),
  calls Int64,
  raw_reply Nullable(String) CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(rank)
PARTITION BY toMonday(filed_at)
ORDER BY (fingerprint, scorer, trace_id)
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1;
