current_signals AS (
  -- Each signal once, by its latest word; one that was taken back counts nothing. `keys` are the
  -- things it may hang on: trace, span, response, message, conversation.
  SELECT
    signal_id, kind, occurred_at, value, sentiment, comment, document_id, source,
    trace_id AS signal_trace_id,
    multiIf(
      kind = 'thumbs_down' OR (kind = 'thumbs_up' AND sentiment < 0), 'thumbs_down',
      kind = 'rating' AND sentiment < 0, 'low_rating',
      kind IN ('rephrase', 'regenerate', 'abandon'), toString(kind),
      ''
    ) AS complaint,
    transform(
      complaint,
      ['thumbs_down', 'low_rating', 'rephrase', 'regenerate', 'abandon'],
      [3., 2., 1.5, 1.5, 1.5],
      0.
    ) AS weight,
    arrayMap(key -> assumeNotNull(key), arrayFilter(key -> key IS NOT NULL, [
      concat('trace ', trace_id), concat('span ', span_id), concat('response ', response_id),
      concat('message ', message_id), concat('conversation ', conversation_id)
    ])) AS keys
  FROM (SELECT * FROM signals ORDER BY rank DESC LIMIT 1 BY signal_id)
  WHERE NOT revoked
)
