-- Sums of past judged requests by segment and local score: where the judge surprises.
--
-- Parameters
--   since, until    window of filed_at, the start of the request; until is excluded
--   scorer          whose judgements count, each request by its latest, whoever judged it: this
--                   decides what is drawn, not what any number is
--
-- Columns, one row per segment ('unknown' where a request has none) and bin of the local score
--   bin             floor(5 * lexical_score), so 5 for a score of 1; -1 without one
--   n               judged answers
--   w, wl, wll      sums of w, w l, w l^2, with w = 1 / probability and l = 1 - score of the judge
WITH
drawn AS (
  SELECT
    trace_id,
    ifNull(segment, 'unknown') AS segment,
    if(lexical_score IS NULL, -1, toInt32(floor(assumeNotNull(lexical_score) * 5))) AS bin,
    1 / probability AS weight
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
    AND sampled
  ORDER BY version DESC
  LIMIT 1 BY trace_id
),
verdicts AS (
  SELECT
    trace_id,
    argMax(toString(status), rank) AS verdict,
    argMax(1 - ifNull(score, 1), rank) AS loss
  FROM judgements
  WHERE scorer = {scorer:String}
    AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY
    AND filed_at < {until:DateTime64(6, 'UTC')} + INTERVAL 1 DAY
  GROUP BY trace_id
)
SELECT
  segment,
  bin,
  count() AS n,
  sum(weight) AS w,
  sum(weight * loss) AS wl,
  sum(weight * loss * loss) AS wll
FROM drawn
INNER JOIN verdicts USING (trace_id)
WHERE verdict = 'judged'
GROUP BY segment, bin
ORDER BY segment, bin
