-- What the tables take on disk.
SELECT
  table, sum(rows) AS stored, sum(bytes_on_disk) AS bytes, count() AS parts,
  uniqExact(partition) AS partitions
FROM system.parts
WHERE active AND database = currentDatabase()
GROUP BY table
ORDER BY bytes DESC
