-- How often a judge failed by replies that cannot be used, over the last week it was at work.
--
-- Parameters
--   fingerprint   of the judge
--   causes        failures that are the judge's own: nobody else's fault, and nothing to do with
--                 the answer
--
-- Columns, one row: `answers` that were judged or failed like that, `unusable` those that failed.
WITH
current AS (
  SELECT argMax(status, rank) AS outcome, argMax(reason, rank) AS why
  FROM judgements
  WHERE fingerprint = {fingerprint:String}
    AND filed_at > (
      SELECT max(filed_at) - INTERVAL 7 DAY FROM judgements WHERE fingerprint = {fingerprint:String}
    )
  GROUP BY trace_id, scorer
)
SELECT
  countIf(outcome = 'judged' OR why IN {causes:Array(String)}) AS answers,
  countIf(why IN {causes:Array(String)}) AS unusable
FROM current
