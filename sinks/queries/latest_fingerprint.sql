-- Which judges scored the requests of a window, the one that judged last first.
--
-- Parameters: since, until (window of filed_at; until is excluded).
--
-- Columns: scorer, fingerprint, engine, model, judged, failed, unscored (traces, each once),
-- last_judged_at.
SELECT
  scorer,
  fingerprint,
  argMax(engine, rank) AS engine,
  argMax(ifNull(model, ''), rank) AS model,
  countIf(status = 'judged') AS judged,
  countIf(status = 'failed') AS failed,
  countIf(status = 'unscored') AS unscored,
  max(judged_at) AS last_judged_at
FROM (
  SELECT scorer, fingerprint, engine, model, rank, status, judged_at
  FROM judgements
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
  ORDER BY rank DESC
  LIMIT 1 BY trace_id, scorer, fingerprint
)
GROUP BY scorer, fingerprint
ORDER BY last_judged_at DESC NULLS LAST, scorer, fingerprint
