-- What users asked in a window: each question of a segment once, the most asked first.
--
-- Parameters
--   since, until   requests filed in this window
--   limit          how many questions at most
--
-- Columns: `segment`; `question` as it was asked last, NULL where it was not stored; `requests`;
-- `pages` that its answers rest on: those cited, the first document where none is; and over all
-- questions, also those beyond the limit, `segment_requests`.
WITH newest AS (
  SELECT
    trace_id, filed_at,
    ifNull(segment, 'unknown') AS segment,
    question,
    lowerUTF8(trimBoth(question)) AS asked,
    arrayExists(cited -> ifNull(cited, false), documents.cited) AS cites,
    arrayMin(documents.rank) AS first_rank,
    arrayFilter(page -> page != '', arrayMap(
      (id, source, rank, cited) -> if(
        if(cites, ifNull(cited, false), rank = first_rank), ifNull(ifNull(id, source), ''), ''
      ),
      documents.document_id, documents.source, documents.rank, documents.cited
    )) AS pages
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
  ORDER BY version DESC
  LIMIT 1 BY trace_id
)
SELECT
  segment,
  argMax(newest.question, filed_at) AS question,
  count() AS requests,
  arraySort(groupUniqArrayArray(20)(pages)) AS pages,
  sum(count()) OVER (PARTITION BY segment) AS segment_requests
FROM newest
GROUP BY segment, asked
ORDER BY requests DESC, segment, question
LIMIT {limit:UInt32}
