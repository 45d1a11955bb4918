-- What each judge did in the time range, and at what price.
SELECT
  fingerprint,
  ifNull(any(model), 'no model') AS model,
  count() AS judgements,
  countIf(status = 'failed') AS not_scored,
  sum(calls) AS model_calls,
  sum(input_tokens) AS input,
  sum(output_tokens) AS output,
  sum(cost_usd) AS usd,
  1000 * usd / greatest(countIf(status = 'judged'), 1) AS usd_a_thousand
FROM (
  SELECT *
  FROM judgements
  WHERE $__timeFilter(filed_at)
  ORDER BY rank DESC
  LIMIT 1 BY trace_id, scorer, fingerprint
)
GROUP BY fingerprint
ORDER BY judgements DESC
