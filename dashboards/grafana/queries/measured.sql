-- Every score that each run measured, over all its questions that nobody made up.
SELECT
  started_at AS time, run_id, fingerprint AS judge, one.1 AS measure,
  JSONExtract(one.2, 'n', 'UInt64') AS questions,
  JSONExtract(one.2, 'mean', 'Nullable(Float64)') AS mean,
  JSONExtract(one.2, 'low', 'Nullable(Float64)') AS low,
  JSONExtract(one.2, 'high', 'Nullable(Float64)') AS high
FROM ({{ runs }})
ARRAY JOIN JSONExtractArrayRaw(summary, 'groups') AS part
ARRAY JOIN JSONExtractKeysAndValuesRaw(part, 'measures') AS one
WHERE JSONExtractString(part, 'segment') = 'all' AND questions > 0
  AND measure NOT IN ('latency_ms', 'input_tokens', 'output_tokens', 'cost_usd')
ORDER BY time DESC, measure
