-- The requests judged for the review only since a time.
--
-- Parameters
--   since    judged at this time or later
--
-- Columns: trace_id
SELECT DISTINCT trace_id
FROM judgements
WHERE purpose = 'review' AND judged_at >= {since:DateTime64(6, 'UTC')}
  AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 8 DAY
