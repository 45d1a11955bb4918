-- Signals that were not sent but inferred carry how sure that is, and why, in words.
ALTER TABLE signals ADD COLUMN IF NOT EXISTS confidence Nullable(Float64);

ALTER TABLE signals ADD COLUMN IF NOT EXISTS reason Nullable(String) CODEC(ZSTD(3));
