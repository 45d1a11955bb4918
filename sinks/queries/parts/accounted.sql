-- Where the traces of a service and segment are, of rows with `state`, `why` and how many `traces`.
sum(traces) AS requests,
sumMapIf(map(why, traces), state = 'ineligible') AS ineligible,
sumIf(traces, state != 'ineligible') AS eligible,
sumIf(traces, state = 'not_sampled') AS not_sampled,
sumIf(traces, state = 'judged') AS judged,
sumIf(traces, state = 'waiting') AS waiting,
sumMapIf(map(why, traces), state IN ('failed', 'unscored')) AS failed
