-- Signals by segment and kind.
SELECT
  segment, kind, if(inferred, 'inferred', 'sent') AS told, signals, positive, negative, matched
FROM ({{ signals_summary }})
WHERE {{ selected_segment }}
ORDER BY signals DESC
