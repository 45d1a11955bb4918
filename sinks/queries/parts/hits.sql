hits AS (
  -- Which signals hang on which request, by the keys in `links`. A signal that was inferred gives
  -- way to one of the same kind that was sent.
  SELECT trace_id, signal_id, complaint, weight, direct, signal
  FROM (
    SELECT *, max(NOT inferred) OVER (PARTITION BY trace_id, kind) AS sent
    FROM (
      SELECT
        trace_id,
        signal_id,
        any(kind) AS kind,
        any(source) = 'inferred' AS inferred,
        any(complaint) AS complaint,
        any(weight) AS weight,
        max(key NOT LIKE 'conversation %') AS direct,
        any(signal) AS signal
      FROM links
      INNER JOIN (
        SELECT signal_id, kind, source, complaint, weight, signal, key
        FROM current_signals ARRAY JOIN keys AS key
      ) AS aims USING (key)
      GROUP BY trace_id, signal_id
    )
  )
  WHERE NOT (inferred AND sent)
)
