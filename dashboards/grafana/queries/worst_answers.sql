-- The judged answers that lost most claims.
SELECT
  judged.filed_at AS time, segment, score, contradicted, in_no_document, question,
  judged.trace_id AS trace_id
FROM (
  SELECT
    filed_at, trace_id, score,
    countEqual(claims.verdict, 'CONTRADICTED') AS contradicted,
    countEqual(claims.verdict, 'NOT_FOUND') AS in_no_document
  FROM judgements
  WHERE $__timeFilter(filed_at) AND fingerprint = ${judge:sqlstring} AND status = 'judged'
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
) AS judged
INNER JOIN ({{ asked }}) AS asked ON judged.trace_id = asked.trace_id
WHERE score < 1
ORDER BY score, time DESC
LIMIT 50
