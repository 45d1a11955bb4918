-- The newest calibration of a judge, and how much has been judged that one could be fitted to.
--
-- Parameters: scorer, fingerprint.
--
-- Columns, one row: version ('' without any), fitted_at, n (judgements it was fitted to), model
-- (JSON), judged (judgements that are stored).
SELECT
  max(c.version) AS version,
  max(c.fitted_at) AS fitted_at,
  argMax(c.n, c.version) AS n,
  argMax(c.model, c.version) AS model,
  (
    SELECT count()
    FROM judgements
    WHERE scorer = {scorer:String} AND fingerprint = {fingerprint:String} AND status = 'judged'
  ) AS judged
FROM calibrations AS c
WHERE c.scorer = {scorer:String} AND c.fingerprint = {fingerprint:String}
