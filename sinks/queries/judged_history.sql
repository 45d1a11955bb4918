-- Judged requests of the past, the newest first: what a calibration is fitted to.
--
-- Parameters: as in accounting.sql, and
--   most                    number of rows at most
--
-- Columns: score (of the judge), lexical_score, raised (a complaint raised its decision),
-- probability.
WITH
{{ judged_within }},
{{ placed }}
SELECT 1 - loss AS score, lexical_score, raised, 1 / weight AS probability
FROM placed
WHERE state = 'judged' AND lexical_score IS NOT NULL
ORDER BY filed_at DESC
LIMIT {most:UInt32}
