-- Runs of the golden set that started in the time range, each by its newest state.
SELECT *
FROM (SELECT * FROM eval_runs ORDER BY updated_at DESC LIMIT 1 BY run_id)
WHERE $__timeFilter(started_at)
