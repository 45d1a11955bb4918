-- The additive sums behind every estimate of quality: add rows of any windows and segments, then
-- compute mean, variance and interval from the totals.
--
-- Parameters: as in accounting.sql.
--
-- Columns, one row per service and segment, with w = 1 / probability, l = 1 - score of the judge,
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
  countIf(state = 'judged') AS n,
  sumIf(weight, state = 'judged') AS w,
  sumIf(weight * loss, state = 'judged') AS wl,
  sumIf(weight * loss * loss, state = 'judged') AS wll,
  sumIf(weight * weight, state = 'judged') AS w2,
  sumIf(weight * weight * loss, state = 'judged') AS w2l,
  sumIf(weight * weight * loss * loss, state = 'judged') AS w2ll,
  sumIf(weight * foreseen_loss, state = 'judged') AS wh,
  sumIf(weight * loss * foreseen_loss, state = 'judged') AS wlh,
  sumIf(weight * foreseen_loss * foreseen_loss, state = 'judged') AS whh,
  sumIf(weight * weight * foreseen_loss, state = 'judged') AS w2h,
  sumIf(weight * weight * loss * foreseen_loss, state = 'judged') AS w2lh,
  sumIf(weight * weight * foreseen_loss * foreseen_loss, state = 'judged') AS w2hh,
  maxIf(weight, state = 'judged') AS max_w,
  minIf(weight, state = 'judged') AS min_w,
  countIf(state = 'failed') AS n_failed,
  sumIf(weight, state = 'failed') AS w_failed,
  sumIf(weight, state = 'unscored') AS w_unscored,
  sumIf(weight * foreseen_loss, state = 'unscored') AS wh_unscored,
  countIf(state != 'ineligible') AS n_requests,
  sumIf(foreseen_loss, state != 'ineligible') AS h,
  countIf(predicted AND state != 'ineligible') AS n_predicted,
  max(calibration_used) AS calibration
FROM placed
GROUP BY service, segment
ORDER BY service, segment
