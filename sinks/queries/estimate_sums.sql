-- The additive sums behind every estimate of quality: add rows of any windows and segments, then
-- compute mean, variance and interval from the totals.
--
-- Parameters: as in accounting.sql.
--
-- Columns, one row per service and segment: those of accounting.sql, so that a window is read once for
-- both; and, with w = 1 / probability, l = 1 - score of the judge,
-- h = 1 - prediction (0 where there is none: any function of the request will do that was fixed
-- before it was judged)
--   n                       judged answers
--   w, wl, wll              sums of w, w l, w l^2 over judged answers
--   w2, w2l, w2ll           sums of w^2, w^2 l, w^2 l^2
--   wh, wlh, whh, w2h, w2lh, w2hh   the sums with h, for the prediction-powered estimate
--   max_w, min_w            largest and smallest weight among judged answers, 0 without any
--   n_failed, w_failed      count and weight of the answers whose judging failed; an answer without
--                           claims is no failure, it has nothing to estimate
--   w_unscored, wh_unscored sums of w, w h over answers in which the judge found no claim
--   n_requests, h           count and sum of h over all eligible requests
--   n_predicted             how many of them have a prediction
--   calibration             the newest version behind these, '' without any
WITH
{{ within }},
{{ placed }}
SELECT
  service,
  segment,
  {{ accounted }},
  sumIf(placed.traces, state = 'judged') AS n,
  sumIf(placed.w, state = 'judged') AS w,
  sumIf(placed.wl, state = 'judged') AS wl,
  sumIf(placed.wll, state = 'judged') AS wll,
  sumIf(placed.w2, state = 'judged') AS w2,
  sumIf(placed.w2l, state = 'judged') AS w2l,
  sumIf(placed.w2ll, state = 'judged') AS w2ll,
  sumIf(placed.wh, state = 'judged') AS wh,
  sumIf(placed.wlh, state = 'judged') AS wlh,
  sumIf(placed.whh, state = 'judged') AS whh,
  sumIf(placed.w2h, state = 'judged') AS w2h,
  sumIf(placed.w2lh, state = 'judged') AS w2lh,
  sumIf(placed.w2hh, state = 'judged') AS w2hh,
  maxIf(placed.max_w, state = 'judged') AS max_w,
  minIf(placed.min_w, state = 'judged') AS min_w,
  sumIf(placed.traces, state = 'failed') AS n_failed,
  sumIf(placed.w, state = 'failed') AS w_failed,
  sumIf(placed.w, state = 'unscored') AS w_unscored,
  sumIf(placed.wh, state = 'unscored') AS wh_unscored,
  sumIf(placed.traces, state != 'ineligible') AS n_requests,
  sumIf(placed.h, state != 'ineligible') AS h,
  sumIf(placed.predicted, state != 'ineligible') AS n_predicted,
  max(placed.calibration) AS calibration
FROM (
  SELECT
    service,
    segment,
    state,
    why,
    count() AS traces,
    sum(weight) AS w,
    sum(weight * loss) AS wl,
    sum(weight * loss * loss) AS wll,
    sum(weight * weight) AS w2,
    sum(weight * weight * loss) AS w2l,
    sum(weight * weight * loss * loss) AS w2ll,
    sum(weight * foreseen_loss) AS wh,
    sum(weight * loss * foreseen_loss) AS wlh,
    sum(weight * foreseen_loss * foreseen_loss) AS whh,
    sum(weight * weight * foreseen_loss) AS w2h,
    sum(weight * weight * loss * foreseen_loss) AS w2lh,
    sum(weight * weight * foreseen_loss * foreseen_loss) AS w2hh,
    max(weight) AS max_w,
    min(weight) AS min_w,
    sum(foreseen_loss) AS h,
    countIf(predicted) AS predicted,
    max(calibration_used) AS calibration
  FROM placed
  GROUP BY service, segment, state, why
) AS placed
GROUP BY service, segment
ORDER BY service, segment
