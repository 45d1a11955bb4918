-- What the newest run (age 1) and the one before it (age 2) measured, a row per question and measure.
WITH
runs AS (
  SELECT run_id, row_number() OVER (ORDER BY started_at DESC, run_id DESC) AS age
  FROM ({{ runs }})
),
measured AS (
  SELECT age, question_id, segment, measure, value
  FROM (
    SELECT run_id, question_id, segment, measures
    FROM eval_rows
    ORDER BY written_at DESC
    LIMIT 1 BY run_id, question_id
  ) AS asked
  INNER JOIN runs ON asked.run_id = runs.run_id
  ARRAY JOIN mapKeys(measures) AS measure, mapValues(measures) AS value
  WHERE age <= 2
)
