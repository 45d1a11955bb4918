-- Where every request of a window is: the accounting that must add up.
--
-- Parameters
--   since, until           window of filed_at, the start of the request; until is excluded
--   segment                one segment, or '' for all
--   scorer, fingerprint    whose judgements count; those of any other fingerprint do not
--
-- Columns, one row per service and segment ('unknown' where a request has none)
--   requests       = eligible + sum of ineligible
--   ineligible     count by reason: nothing to judge, as seen before judging
--   eligible       = not_sampled + judged + waiting + sum of failed
--   not_sampled, judged, waiting
--   failed         count by cause; among them what only the judge found to be unscorable, such as
--                  no_claims: the request was eligible when it was drawn, and stays so
--
-- Each trace counts once, by its newest version. A judgement of an older version counts until a
-- newer one replaces it. A judgement of a request that was not drawn is not used.
WITH
{{ within }},
{{ placed }}
SELECT
  service,
  segment,
  {{ accounted }}
FROM (
  SELECT service, segment, state, why, count() AS traces
  FROM placed
  GROUP BY service, segment, state, why
)
GROUP BY service, segment
ORDER BY service, segment
