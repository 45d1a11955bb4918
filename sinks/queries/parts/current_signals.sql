current_signals AS (
  -- Each signal once, by its latest word; one that was taken back counts nothing.
  {{ signal_columns }}
  FROM (SELECT * FROM signals ORDER BY rank DESC LIMIT 1 BY signal_id)
  WHERE NOT revoked
)
