-- Where every request of a window is: the accounting that must add up.
--
-- Parameters
--   since, until           window of filed_at, the start of the request; until is excluded
--   segment                one segment, or '' for all
--   scorer, fingerprint    whose judgements count; those of any other fingerprint do not
--
-- Columns, one row per service and segment ('unknown' where a request has none)
--   requests       = eligible + sum of ineligible
--   ineligible     count by reason: nothing to judge, as seen before judging or by the judge
--   eligible       = not_sampled + judged + waiting + sum of failed
--   not_sampled, judged, waiting
--   failed         count by cause
--
-- Each trace counts once, by its newest version. A judgement of an older version counts until a
-- newer one replaces it. A judgement of a request that was not drawn is not used.
WITH
{{ placed }}
SELECT
  service,
  segment,
  count() AS requests,
  sumMapIf(map(why, toUInt64(1)), state = 'ineligible') AS ineligible,
  countIf(state != 'ineligible') AS eligible,
  countIf(state = 'not_sampled') AS not_sampled,
  countIf(state = 'judged') AS judged,
  countIf(state = 'waiting') AS waiting,
  sumMapIf(map(why, toUInt64(1)), state = 'failed') AS failed
FROM placed
GROUP BY service, segment
ORDER BY service, segment
