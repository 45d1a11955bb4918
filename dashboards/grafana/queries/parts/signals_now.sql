-- Each signal of the time range once, by its latest word, without those that were taken back.
SELECT *
FROM (SELECT * FROM signals WHERE $__timeFilter(filed_at) ORDER BY rank DESC LIMIT 1 BY signal_id)
WHERE NOT revoked
