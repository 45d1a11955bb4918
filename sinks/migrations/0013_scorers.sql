-- The draws of the scorers beside faithfulness: the inclusion probability for each that a request has
-- something to score for, and which of them judge it. Fixed with the decision.
ALTER TABLE requests ADD COLUMN IF NOT EXISTS
  scorer_probability Map(LowCardinality(String), Float64);

ALTER TABLE requests ADD COLUMN IF NOT EXISTS scorers_drawn Array(LowCardinality(String));
