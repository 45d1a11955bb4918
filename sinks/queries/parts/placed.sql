newest AS (
  SELECT
    trace_id,
    filed_at,
    ifNull(service, 'unknown') AS service,
    ifNull(segment, 'unknown') AS segment,
    -- A request without a conversation is one of its own.
    ifNull(concat('conversation ', conversation_id), concat('trace ', trace_id)) AS conversation,
    -- Every other scorer has a draw of its own, of the requests it has something to score for.
    {scorer:String} = 'faithfulness' AS main,
    if(main, sampled, has(scorers_drawn, {scorer:String})) AS drawn,
    if(main, probability, scorer_probability[{scorer:String}]) AS inclusion,
    first_probability IS NOT NULL AS raised,
    lexical_score,
    if(main, if(raised, complaint_prediction, prediction), NULL) AS foreseen,
    calibration,
    multiIf(
      main, ineligible,
      mapContains(scorer_probability, {scorer:String}), NULL,
      ifNull(ineligible, 'nothing_to_score')
    ) AS unfit
  FROM within
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
    filed_at,
    service,
    segment,
    conversation,
    multiIf(
      unfit IS NOT NULL, 'ineligible',
      NOT drawn, 'not_sampled',
      verdict = 'judged', 'judged',
      verdict = 'failed', 'failed',
      verdict = 'unscored', 'unscored',
      'waiting'
    ) AS state,
    toString(ifNull(unfit, reason)) AS why,
    1 / inclusion AS weight,
    1 - score AS loss,
    raised,
    lexical_score,
    1 - ifNull(foreseen, 1) AS foreseen_loss,
    foreseen IS NOT NULL AS predicted,
    if(predicted, ifNull(calibration, ''), '') AS calibration_used
  FROM newest
  LEFT JOIN verdicts USING (trace_id)
  WHERE {segment:String} = '' OR segment = {segment:String}
)
