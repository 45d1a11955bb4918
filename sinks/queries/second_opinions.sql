-- Answers that two judges scored for faithfulness, how each of them put it.
--
-- Parameters
--   first    fingerprint of the judge
--   second   fingerprint of the second judge
--   most     answers at most, the latest first
--
-- Columns: first_score, second_score.
WITH
scores AS (
  SELECT
    trace_id,
    argMaxIf(score, rank, fingerprint = {first:String}) AS first_score,
    argMaxIf(score, rank, fingerprint = {second:String}) AS second_score,
    max(judged_at) AS at
  FROM judgements
  WHERE fingerprint IN ({first:String}, {second:String})
    AND trace_id IN (SELECT trace_id FROM judgements WHERE fingerprint = {second:String})
  GROUP BY trace_id
  HAVING countIf(fingerprint = {first:String}) > 0
    AND countIf(fingerprint = {second:String}) > 0
)
SELECT first_score, second_score
FROM scores
WHERE first_score IS NOT NULL AND second_score IS NOT NULL
ORDER BY at DESC
LIMIT {most:UInt32}
