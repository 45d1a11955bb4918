-- When another judge took over among the requests of a window: no series goes on across these.
--
-- Parameters: since, until (window of filed_at; until is excluded), scorer.
--
-- Columns, in order of time: at (time of the first judgement by the new one), fingerprint, engine,
-- model, previous (fingerprint).
SELECT judged_at AS at, fingerprint, engine, ifNull(model, '') AS model, previous
FROM (
  SELECT
    judged_at, fingerprint, engine, model,
    lagInFrame(toString(fingerprint)) OVER (
      ORDER BY judged_at, trace_id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
    ) AS previous
  FROM (
    SELECT trace_id, fingerprint, engine, model, judged_at
    FROM judgements
    WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
      AND scorer = {scorer:String} AND judged_at IS NOT NULL
    ORDER BY rank DESC
    LIMIT 1 BY trace_id, fingerprint
  )
)
WHERE previous NOT IN ('', fingerprint)
ORDER BY at
LIMIT 100
