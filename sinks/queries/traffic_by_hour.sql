-- How many requests that can be judged were decided in each hour, and how many of them are judged.
--
-- Parameters
--   since, until    window of decided_at; until is excluded
--
-- Columns, one row per UTC day and hour of the day with any
--   day, hour
--   requests        exact to about 1 %: this is for a forecast
--   drawn           exact up to about 65,000
--   first_at        when the first of them was decided
SELECT
  toDate(decided_at) AS day,
  toHour(decided_at) AS hour,
  uniq(trace_id) AS requests,
  uniqIf(trace_id, sampled) AS drawn,
  min(decided_at) AS first_at
FROM requests
WHERE decided_at >= {since:DateTime64(6, 'UTC')} AND decided_at < {until:DateTime64(6, 'UTC')}
  AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY
  AND ineligible IS NULL
GROUP BY day, hour
ORDER BY day, hour
