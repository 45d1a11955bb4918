-- Sums over conversations, for the variance of estimates where requests of one conversation resemble
-- each other.
--
-- Parameters: as in accounting.sql.
--
-- Columns, rows per service and segment (level 'both'), per segment over all services ('segment'),
-- and one over all ('all'); a conversation may be in several segments, so they do not add up.
-- With W, A, B = sums of w, w l, w h over the judged answers of one conversation
--   n                       conversations with a judged answer
--   ww, wa, wb, aa, ab, bb  sums of W W, W A, W B, A A, A B, B B
WITH
{{ judged_within }},
{{ placed }}
SELECT
  level,
  service,
  segment,
  count() AS n,
  sum(w * w) AS ww,
  sum(w * a) AS wa,
  sum(w * b) AS wb,
  sum(a * a) AS aa,
  sum(a * b) AS ab,
  sum(b * b) AS bb
FROM (
  SELECT
    multiIf(grouping(segment) = 1, 'all', grouping(service) = 1, 'segment', 'both') AS level,
    service,
    segment,
    sum(weight) AS w,
    sum(weight * loss) AS a,
    sum(weight * foreseen_loss) AS b
  FROM placed
  WHERE state = 'judged'
  GROUP BY GROUPING SETS (
    (service, segment, conversation), (segment, conversation), (conversation)
  )
)
GROUP BY level, service, segment
ORDER BY level, service, segment
