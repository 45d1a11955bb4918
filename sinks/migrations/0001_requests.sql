-- One row per version of a trace.
--
-- filed_at is the time a trace is filed under: the start of the request when its first version
-- was stored, the time of its sampling decision where the start is unknown or implausible. Later
-- versions keep the filed_at of the first, so all versions of a trace share partition and sorting
-- key, merges leave the highest version, and a request never moves from one window to another.
-- Two processes may file one trace apart in a race: readers still take the highest version by
-- trace_id (ORDER BY version DESC LIMIT 1 BY trace_id) and never rely on merges.
--
-- Granules of 512 rows, because one granule is what showing one request unpacks of the texts.
-- fsync: an insert that was acknowledged survives a power cut.
CREATE TABLE IF NOT EXISTS requests (
  filed_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
  trace_id String,
  version UInt64,
  batch_id String CODEC(ZSTD(1)),
  stored_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),

  service LowCardinality(Nullable(String)),
  conventions Array(LowCardinality(String)),
  started_at Nullable(DateTime64(6, 'UTC')),
  latency_ms Nullable(Float64),
  ttft_ms Nullable(Float64),
  conversation_id Nullable(String),
  user_id Nullable(String),
  segment LowCardinality(Nullable(String)),
  question Nullable(String) CODEC(ZSTD(3)),
  answer Nullable(String) CODEC(ZSTD(3)),
  documents Nested (
    rank Int64,
    document_id Nullable(String),
    chunk_id Nullable(String),
    source Nullable(String),
    title Nullable(String),
    text Nullable(String),
    score Nullable(Float64),
    score_kind LowCardinality(Nullable(String)),
    cited Nullable(Bool)
  ) CODEC(ZSTD(3)),
  stages Nested (
    kind LowCardinality(String),
    name Nullable(String),
    query Nullable(String),
    latency_ms Nullable(Float64),
    documents Nullable(Int64),
    error Nullable(String)
  ) CODEC(ZSTD(3)),
  retriever_stages Int64,
  reranker_stages Int64,
  llm_calls Int64,
  citations Array(Int64),
  model LowCardinality(Nullable(String)),
  provider LowCardinality(Nullable(String)),
  input_tokens Nullable(Int64),
  output_tokens Nullable(Int64),
  cached_tokens Nullable(Int64),
  cost_usd Nullable(Float64),
  status LowCardinality(String),
  has_error Bool,
  error_stage LowCardinality(Nullable(String)),
  error_type Nullable(String),
  error_message Nullable(String) CODEC(ZSTD(3)),
  flags Array(LowCardinality(String)),
  response_ids Array(String),
  message_id Nullable(String),

  sampled Bool,
  probability Float64,
  uniform Float64,
  stratum LowCardinality(String),
  salt LowCardinality(String),
  decided_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
  lexical_score Nullable(Float64),
  ineligible LowCardinality(Nullable(String)),

  telemetry_bytes UInt64,

  PROJECTION by_trace (
    SELECT trace_id, version, filed_at, telemetry_bytes ORDER BY trace_id
  ) WITH SETTINGS (index_granularity = 256),
  PROJECTION by_conversation (
    SELECT conversation_id, trace_id, filed_at ORDER BY conversation_id
  ) WITH SETTINGS (index_granularity = 256)
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toMonday(filed_at)
ORDER BY (filed_at, trace_id)
SETTINGS
  index_granularity = 512,
  fsync_after_insert = 1,
  fsync_part_directory = 1,
  deduplicate_merge_projection_mode = 'rebuild',
  lightweight_mutation_projection_mode = 'rebuild';

-- The raw spans behind a version, kept while late spans may come (store.late_spans_hours).
--
-- Beside the requests and not in them: this is nine tenths of all bytes, lives for days and is
-- read by key only, while every dashboard scans the requests. Written before its request, so that
-- a request that can be seen has its spans. Small granules, because a granule is what one look-up
-- unpacks. A partition per day of arrival, so that ageing drops whole parts.
CREATE TABLE IF NOT EXISTS telemetry (
  filed_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
  trace_id String,
  version UInt64,
  batch_id String CODEC(ZSTD(1)),
  stored_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
  body String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(stored_at)
ORDER BY (filed_at, trace_id, version)
TTL toDateTime(stored_at) + toIntervalHour(48)
SETTINGS
  index_granularity_bytes = 2097152,
  ttl_only_drop_parts = 1,
  fsync_after_insert = 1,
  fsync_part_directory = 1;
