-- What a signal complains of; '' where it does not.
multiIf(
  kind = 'thumbs_down' OR (kind = 'thumbs_up' AND sentiment < 0), 'thumbs_down',
  kind = 'rating' AND sentiment < 0, 'low_rating',
  kind IN ('rephrase', 'push_back', 'regenerate', 'abandon', 'repeated_clicks'), toString(kind),
  ''
)
