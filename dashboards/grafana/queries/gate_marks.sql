-- Results of the release gate as marks over time.
SELECT
  decided_at AS time,
  concat(new_run, ' ', result) AS title,
  concat('against ', old_run, if(empty(reasons), '', ': '), arrayStringConcat(reasons, '; ')) AS text,
  'gate' AS tags
FROM ({{ gates }})
ORDER BY time
