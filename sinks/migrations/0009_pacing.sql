-- What a judgement was asked for: `estimate`, or `review` for one that no mean may use.
ALTER TABLE judgements ADD COLUMN IF NOT EXISTS purpose LowCardinality(String) DEFAULT 'estimate';

-- Small running states that must survive a restart, such as the evidence behind an alert. One row
-- is one state as a whole, so that it is written in one step; readers take the highest version.
CREATE TABLE IF NOT EXISTS states (
  name String,
  version UInt64,
  saved_at DateTime64(6, 'UTC') DEFAULT now64(6, 'UTC'),
  body String CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(version)
ORDER BY name
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
