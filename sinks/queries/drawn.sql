-- The requests drawn for the estimate in a time of decision, and what the judge said of each.
--
-- Parameters
--   since, until          window of decided_at; since is excluded, until is not
--   scorer, fingerprint   whose judgements count
--
-- Requests that started over a day before `since` are left out: archives say nothing of today.
--
-- Columns, in order of decision, each request once
--   trace_id, service, segment ('unknown' where there is none), decided_at
--   probability    of the first draw: what a signal raised later has a draw of its own
--   state          judged, failed, unscored, another (by another judge, so not by this one), or ''
--                  while no judge has answered
--   score          0 where it was not judged
WITH
decided AS (
  SELECT *
  FROM (
    SELECT
      trace_id,
      ifNull(service, 'unknown') AS service,
      ifNull(segment, 'unknown') AS segment,
      decided_at,
      ifNull(first_probability, probability) AS draw,
      ifNull(first_sampled, sampled) AS drawn,
      ineligible
    FROM requests
    WHERE decided_at > {since:DateTime64(6, 'UTC')} AND decided_at <= {until:DateTime64(6, 'UTC')}
      AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY
    ORDER BY version DESC
    LIMIT 1 BY trace_id
  )
  WHERE drawn AND ineligible IS NULL
),
verdicts AS (
  SELECT
    trace_id,
    max(fingerprint = {fingerprint:String}) AS ours,
    if(ours, argMaxIf(toString(status), rank, fingerprint = {fingerprint:String}), 'another')
      AS state,
    argMaxIf(ifNull(score, 0), rank, fingerprint = {fingerprint:String}) AS score
  FROM judgements
  WHERE scorer = {scorer:String}
    AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 2 DAY
    AND trace_id IN (SELECT trace_id FROM decided)
  GROUP BY trace_id
)
SELECT trace_id, service, segment, decided_at, draw AS probability, state, score
FROM decided
LEFT JOIN verdicts USING (trace_id)
ORDER BY decided_at, trace_id
