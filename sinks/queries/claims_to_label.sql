-- Claims for people to label: half of them flagged by the judge, half not, each half drawn by hash.
--
-- Parameters
--   since, until   requests filed in this window
--   segment        only this one; '' for all
--   fingerprint    of the judge whose claims these are
--   limit          how many claims at most
--
-- Columns: `trace_id`, `claim`, `fingerprint`, `machine_verdict`, `segment`, `question`, `answer`,
-- `texts` of the documents in order of rank, and `probability`: that of the request to be judged
-- times that of the claim to be drawn from its half. Labelled claims come again, so that draws of
-- later weeks stay comparable.
WITH
newest AS (
  SELECT
    trace_id, ifNull(segment, 'unknown') AS segment, question, answer, probability,
    arraySort((text, rank) -> rank, documents.text, documents.rank) AS texts
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
    AND sampled
  ORDER BY version DESC
  LIMIT 1 BY trace_id
),
listed AS (
  SELECT trace_id, {{ claims }} AS claims
  FROM judgements
  WHERE fingerprint = {fingerprint:String} AND scorer = 'faithfulness'
    AND trace_id IN (SELECT trace_id FROM newest)
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
),
judged AS (
  SELECT trace_id, one.1 AS claim, any(one.2) AS machine_verdict
  FROM listed
  ARRAY JOIN claims AS one
  WHERE one.1 != ''
  GROUP BY trace_id, claim
),
placed AS (
  SELECT
    judged.trace_id AS trace_id,
    judged.claim AS claim,
    judged.machine_verdict AS machine_verdict,
    newest.segment AS segment,
    newest.question AS question,
    newest.answer AS answer,
    newest.texts AS texts,
    newest.probability AS judged_with,
    row_number() OVER (
      PARTITION BY machine_verdict = 'SUPPORTED'
      ORDER BY cityHash64('label', judged.trace_id, judged.claim)
    ) AS place,
    count() OVER (PARTITION BY machine_verdict = 'SUPPORTED') AS of_these
  FROM judged
  INNER JOIN newest ON judged.trace_id = newest.trace_id
  WHERE {segment:String} = '' OR newest.segment = {segment:String}
)
SELECT
  trace_id,
  claim,
  {fingerprint:String} AS fingerprint,
  machine_verdict,
  segment,
  question,
  answer,
  texts,
  judged_with * least(1, intDiv({limit:UInt32} + 1, 2) / of_these) AS probability
FROM placed
WHERE place <= intDiv({limit:UInt32} + 1, 2)
ORDER BY cityHash64('order', trace_id, claim)
LIMIT {limit:UInt32}
