within AS (
  -- All versions of the requests of a window.
  SELECT *
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
)
