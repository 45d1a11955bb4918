-- What the judge will say, as foreseen from the free local score when a request was decided on:
-- fixed before it was judged, and by a calibration that was fitted before. null where there was
-- none. complaint_prediction holds for a request whose decision a complaint has raised.
ALTER TABLE requests ADD COLUMN IF NOT EXISTS prediction Nullable(Float64);

ALTER TABLE requests ADD COLUMN IF NOT EXISTS complaint_prediction Nullable(Float64);

ALTER TABLE requests ADD COLUMN IF NOT EXISTS calibration LowCardinality(Nullable(String));

-- The calibrations behind these predictions, each fitted to `n` judgements of one fingerprint.
-- version is the time of fitting and orders them; model is JSON. Never dropped by age.
CREATE TABLE IF NOT EXISTS calibrations (
  scorer LowCardinality(String),
  fingerprint LowCardinality(String),
  version String,
  fitted_at DateTime64(6, 'UTC'),
  n UInt64,
  model String CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
ORDER BY (scorer, fingerprint, version)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
