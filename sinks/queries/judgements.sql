-- All current judgements, newest first: what an export or an audit reads.
--
-- Columns: those of the table judgements, claims as tuples; one row per trace, scorer and
-- fingerprint, by its highest rank.
SELECT
  trace_id, scorer, fingerprint, status, score, reason, {{ claims }} AS claims, engine, model,
  input_tokens, output_tokens, cached_tokens, cost_usd, calls, request_version, judged_at
FROM judgements
ORDER BY rank DESC
LIMIT 1 BY trace_id, scorer, fingerprint
