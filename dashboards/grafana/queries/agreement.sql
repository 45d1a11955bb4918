-- How often people say the same as the judge, by what the judge said.
SELECT machine, count() AS labels, countIf(verdict = machine) AS same, same / labels AS agreement
FROM ({{ labelled_claims }})
GROUP BY machine
ORDER BY machine
