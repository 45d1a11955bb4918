-- Documents that reached the assistant in a window and whose id, title or source holds some words.
--
-- Parameters
--   since, until   requests filed in this window
--   words          looked for without regard to case
--   limit          how many at most
--
-- Columns: `id` (the document's, or else its source), `title`, `times` seen; most often seen first.
SELECT
  ifNull(document.1, document.2) AS id,
  any(ifNull(document.3, document.2)) AS title,
  count() AS times
FROM requests
ARRAY JOIN arrayZip(documents.document_id, documents.source, documents.title) AS document
WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
  AND id != ''
  AND positionCaseInsensitiveUTF8(
    concat(id, ' ', ifNull(document.2, ''), ' ', ifNull(document.3, '')), {words:String}
  ) > 0
GROUP BY id
ORDER BY times DESC, id
LIMIT {limit:UInt32}
