-- What people say about answers, and the golden candidates that come of it. Never dropped by age.

-- A human label of an answer (claim = '') or of one of its claims (claim = its text).
-- Readers take the highest labelled_at of (trace_id, claim, labeller).
CREATE TABLE IF NOT EXISTS labels (
  trace_id String,
  claim String CODEC(ZSTD(3)),
  labeller LowCardinality(String),
  labelled_at DateTime64(6, 'UTC'),
  verdict LowCardinality(String),
  score Nullable(Float64),
  note Nullable(String) CODEC(ZSTD(3)),
  scorer LowCardinality(String),
  fingerprint LowCardinality(String),
  machine_verdict LowCardinality(Nullable(String))
)
ENGINE = ReplacingMergeTree(labelled_at)
ORDER BY (trace_id, claim, labeller)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- Events of golden candidates: proposed, edited, accepted, rejected, exported. The state of a
-- candidate is its events in order of happened_at; event_id makes a repeated write harmless.
CREATE TABLE IF NOT EXISTS candidates (
  candidate_id String,
  happened_at DateTime64(6, 'UTC'),
  event_id String,
  event LowCardinality(String),
  actor LowCardinality(String),
  trace_id Nullable(String),
  payload String CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
ORDER BY (candidate_id, happened_at, event_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
