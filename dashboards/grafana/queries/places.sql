-- Where every request of the time range is.
SELECT
  service, segment, requests, eligible, not_sampled, judged, waiting,
  arraySum(mapValues(failed)) AS not_scored
FROM ({{ accounting }})
WHERE {{ selected }}
ORDER BY requests DESC
