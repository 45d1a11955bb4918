-- For how many conversations signals speak.
SELECT segment, requests, conversations, engaged, engaged / conversations AS share
FROM ({{ engagement }})
WHERE {{ selected_segment }}
ORDER BY requests DESC
