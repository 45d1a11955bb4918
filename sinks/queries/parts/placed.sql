newest AS (
  SELECT
    trace_id,
    ifNull(service, 'unknown') AS service,
    ifNull(segment, 'unknown') AS segment,
    sampled,
    probability,
    lexical_score,
    ineligible
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
  ORDER BY version DESC
  LIMIT 1 BY trace_id
),
verdicts AS (
  -- A judgement is filed with its request; the day of slack covers processes that raced.
  SELECT
    trace_id,
    argMax(toString(status), rank) AS verdict,
    argMax(ifNull(score, 0), rank) AS score,
    argMax(ifNull(reason, 'unknown'), rank) AS reason
  FROM judgements
  WHERE fingerprint = {fingerprint:String} AND scorer = {scorer:String}
    AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY
    AND filed_at < {until:DateTime64(6, 'UTC')} + INTERVAL 1 DAY
  GROUP BY trace_id
),
placed AS (
  -- Every trace of the window once, in exactly one state.
  SELECT
    service,
    segment,
    multiIf(
      ineligible IS NOT NULL, 'ineligible',
      NOT sampled, 'not_sampled',
      verdict = 'judged', 'judged',
      verdict = 'failed', 'failed',
      verdict = 'unscored', 'unscored',
      'waiting'
    ) AS state,
    toString(ifNull(ineligible, reason)) AS why,
    1 / probability AS weight,
    1 - score AS loss,
    1 - ifNull(lexical_score, 1) AS local_loss
  FROM newest
  LEFT JOIN verdicts USING (trace_id)
  WHERE {segment:String} = '' OR segment = {segment:String}
)
