-- What judging cost in a window, and in the one before it.
--
-- Parameters
--   before, since, until   the windows of judged_at: [before, since) and [since, until)
--
-- Columns, one row
--   usd, usd_before             US dollars, of all scorers and judges
--   calls, calls_before         calls of a model
--   unpriced, unpriced_before   judgements that called a model whose price is not configured
--
-- A judgement is filed under the start of its request: one that waited longer than a week is
-- looked for in vain. Of a request that is judged again, the last judgement stays.
SELECT
  sumIf(cost, now) AS usd,
  sumIf(cost, NOT now) AS usd_before,
  sumIf(asked, now) AS calls,
  sumIf(asked, NOT now) AS calls_before,
  countIf(now AND unknown) AS unpriced,
  countIf(NOT now AND unknown) AS unpriced_before
FROM (
  SELECT
    judged_at >= {since:DateTime64(6, 'UTC')} AS now,
    ifNull(cost_usd, 0) AS cost,
    calls AS asked,
    calls > 0 AND cost_usd IS NULL AS unknown
  FROM judgements
  WHERE filed_at >= {before:DateTime64(6, 'UTC')} - INTERVAL 7 DAY
    AND filed_at < {until:DateTime64(6, 'UTC')} + INTERVAL 1 DAY
    AND judged_at >= {before:DateTime64(6, 'UTC')} AND judged_at < {until:DateTime64(6, 'UTC')}
  LIMIT 1 BY fingerprint, scorer, trace_id, rank
)
