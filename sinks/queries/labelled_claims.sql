-- Labels of claims beside what a judge says of the same claims: what calibration reads.
--
-- Parameters
--   fingerprint   of the judge
--
-- Columns: `trace_id`, `claim`, `labeller`, `verdict` of the person, `machine` the judge's verdict
-- (its current one, or the one it had when the label was given where the judgement is gone),
-- `probability` that the claim came to be labelled; a row per claim and labeller, latest first.
-- Labels taken back, claims this judge has not listed, and claims that were looked at because they
-- are bad and not drawn by chance are left out.
WITH
given AS (
  SELECT trace_id, claim, labeller, labelled_at, verdict, fingerprint, machine_verdict, probability,
    drawn
  FROM labels
  WHERE claim != ''
  ORDER BY labelled_at DESC
  LIMIT 1 BY trace_id, claim, labeller
),
listed AS (
  SELECT trace_id, {{ claims }} AS claims
  FROM judgements
  WHERE fingerprint = {fingerprint:String} AND scorer = 'faithfulness'
    AND trace_id IN (SELECT trace_id FROM given)
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
),
judged AS (
  SELECT trace_id, one.1 AS claim, any(one.2) AS said
  FROM listed
  ARRAY JOIN claims AS one
  GROUP BY trace_id, claim
),
compared AS (
  SELECT
    given.trace_id AS trace_id,
    given.claim AS claim,
    given.labeller AS labeller,
    given.labelled_at AS labelled_at,
    given.verdict AS verdict,
    multiIf(
      judged.said != '', judged.said,
      given.fingerprint = {fingerprint:String}, ifNull(given.machine_verdict, ''),
      ''
    ) AS machine,
    given.probability AS probability,
    given.drawn AS drawn
  FROM given
  LEFT JOIN judged ON given.trace_id = judged.trace_id AND given.claim = judged.claim
)
SELECT trace_id, claim, labeller, verdict, machine, probability
FROM compared
WHERE verdict != '' AND machine != '' AND drawn
ORDER BY labelled_at DESC, trace_id, claim, labeller
