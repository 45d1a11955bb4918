-- Runs of the golden set, their rows per question, and money spent on judging. Never dropped by
-- age: history is what a run is compared with.

-- Readers take the highest updated_at of a run_id. settings and summary are JSON.
CREATE TABLE IF NOT EXISTS eval_runs (
  run_id String,
  updated_at DateTime64(6, 'UTC'),
  started_at DateTime64(6, 'UTC'),
  finished_at Nullable(DateTime64(6, 'UTC')),
  label String,
  fingerprint LowCardinality(String),
  settings String CODEC(ZSTD(3)),
  summary String CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(updated_at)
ORDER BY run_id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- One row per question of a run; a measure that is undefined for a question is absent from the map.
CREATE TABLE IF NOT EXISTS eval_rows (
  run_id String,
  question_id String,
  segment LowCardinality(String),
  diagnosis LowCardinality(Nullable(String)),
  measures Map(LowCardinality(String), Float64),
  failures Map(LowCardinality(String), String),
  latency_ms Nullable(Float64),
  cost_usd Nullable(Float64),
  detail String CODEC(ZSTD(3)),
  written_at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(written_at)
ORDER BY (run_id, question_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- Money by call, so that the workers of all processes share one budget. spend_id is unique to the
-- call, so a repeated write is harmless: read with LIMIT 1 BY spend_id.
CREATE TABLE IF NOT EXISTS spend (
  day Date,
  spend_id String,
  spent_at DateTime64(6, 'UTC'),
  worker LowCardinality(String),
  purpose LowCardinality(String),
  model LowCardinality(String),
  usd Float64,
  input_tokens Int64,
  output_tokens Int64
)
ENGINE = ReplacingMergeTree(spent_at)
ORDER BY (day, spend_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
