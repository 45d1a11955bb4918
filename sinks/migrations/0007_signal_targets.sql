-- Signals may name a span, and say what their sender calls the score and on which scale it is.
ALTER TABLE signals ADD COLUMN IF NOT EXISTS span_id Nullable(String);

ALTER TABLE signals ADD COLUMN IF NOT EXISTS name Nullable(String);

ALTER TABLE signals ADD COLUMN IF NOT EXISTS scale LowCardinality(Nullable(String));

-- A request knows its spans, so that such a signal finds it. Ids are random: eight bytes each,
-- however they are stored.
ALTER TABLE requests ADD COLUMN IF NOT EXISTS span_ids Array(String) CODEC(ZSTD(1));

-- Look-ups by an id that is no part of a sorting key, in the weeks that a late signal reaches.
ALTER TABLE requests ADD INDEX IF NOT EXISTS by_span span_ids TYPE bloom_filter(0.01) GRANULARITY 1;

ALTER TABLE requests ADD INDEX IF NOT EXISTS by_response response_ids TYPE bloom_filter(0.01) GRANULARITY 1;

ALTER TABLE requests ADD INDEX IF NOT EXISTS by_message message_id TYPE bloom_filter(0.01) GRANULARITY 1;

-- The decision as it was before a signal raised it; null where none did.
ALTER TABLE requests ADD COLUMN IF NOT EXISTS upstream Float64 DEFAULT 1;

ALTER TABLE requests ADD COLUMN IF NOT EXISTS first_probability Nullable(Float64);

ALTER TABLE requests ADD COLUMN IF NOT EXISTS first_sampled Nullable(Bool);
