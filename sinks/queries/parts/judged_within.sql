within AS (
  -- All versions of the requests of a window that have a judgement: others are not even sorted.
  SELECT *
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
    AND trace_hash IN (
      SELECT cityHash64(trace_id)
      FROM judgements
      WHERE fingerprint = {fingerprint:String} AND scorer = {scorer:String}
        AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY
        AND filed_at < {until:DateTime64(6, 'UTC')} + INTERVAL 1 DAY
    )
)
