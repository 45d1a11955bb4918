hits AS (
  -- Which signals hang on which request, by the keys in `links`. A signal that was inferred gives
  -- way to one of the same kind that was sent. Of the signals on one key 100 count, complaints first,
  -- of those on a conversation 25: each of them meets every request of it. `cut` says which key has
  -- how many more.
  SELECT trace_id, signal_id, complaint, weight, direct, signal, cut
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
        any(signal) AS signal,
        argMax((key, more), more) AS cut
      FROM links
      INNER JOIN (
        SELECT
          signal_id, kind, source, complaint, weight, signal, key,
          if(key LIKE 'conversation %', 25, 100) AS most,
          greatest(toInt64(count() OVER (PARTITION BY key)) - most, 0) AS more,
          row_number() OVER (
            PARTITION BY key ORDER BY complaint = '', source = 'inferred', occurred_at, signal_id
          ) AS nth
        FROM current_signals ARRAY JOIN keys AS key
        WHERE key IN (SELECT key FROM links)
        QUALIFY nth <= most
      ) AS aims USING (key)
      GROUP BY trace_id, signal_id
    )
  )
  WHERE NOT (inferred AND sent)
)
