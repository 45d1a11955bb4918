-- How bad conversations can be at most, see `badness` in worst.sql: found from narrow columns, so
-- that only the few that may be among the worst are read as a whole.
--
-- Parameters
--   since, until, segment, fingerprint   as in worst.sql
--   looked_at   so many requests count for their low lexical score alone, those with the lowest
--   recent      every conversation with a request since then comes first
--   limit       how many conversations
--
-- One row per conversation, those come first that can be the worst: conversation, `high` (its
-- badness is not above), and the same in each row `unseen`: the badness of a conversation of which
-- no request was looked at is below that, or 0.
--
-- A request is looked at where it has a complaint, a fault or one of the lowest lexical scores, in
-- any of its versions. All signals on its conversation count as a whole. Where there are more than
-- 25 nothing is said: worst.sql takes some for two, those that are on a crowded key.
WITH
{{ current_signals }},
(
  SELECT if(count() < {looked_at:UInt64}, 0, greatest(min(low), 0))
  FROM (
    SELECT 1 - assumeNotNull(lexical_score) AS low
    FROM requests
    WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
      AND requests.lexical_score IS NOT NULL
      AND ({segment:String} = '' OR ifNull(requests.segment, 'unknown') = {segment:String})
    ORDER BY low DESC
    LIMIT {looked_at:UInt64}
  )
) AS tail,
verdicts AS (
  SELECT
    trace_id,
    status = 'judged' AS judged,
    2. * least(countEqual(claims.verdict, 'CONTRADICTED'), 2)
      + least(countEqual(claims.verdict, 'NOT_FOUND'), 3) AS bad
  FROM judgements
  WHERE fingerprint = {fingerprint:String}
    AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY
    AND filed_at < {until:DateTime64(6, 'UTC')} + INTERVAL 1 DAY
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
),
named AS (
  SELECT trace_id, span_id, response_id, message_id, conversation_id
  FROM signals FINAL
  WHERE NOT revoked AND {{ complaint }} != ''
),
suspects AS (
  SELECT
    trace_id, filed_at, visible_faults, lexical_score,
    ifNull(conversation_id, trace_id) AS conversation,
    {{ request_keys }} AS keys
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
    AND ({segment:String} = '' OR ifNull(requests.segment, 'unknown') = {segment:String})
    AND (
      visible_faults > 0
      OR ifNull(1 - lexical_score >= tail, false)
      OR filed_at >= {recent:DateTime64(6, 'UTC')}
      OR trace_hash IN (SELECT cityHash64(trace_id) FROM verdicts WHERE bad > 0)
      OR {{ is_named }}
    )
),
-- Each signal of a conversation once; '' stands for the requests without any.
met AS (
  SELECT
    suspects.conversation AS conversation,
    aims.signal_id AS signal_id,
    any(aims.weight) AS weight,
    max(suspects.visible_faults + verdicts.bad) AS faults,
    max(if(verdicts.judged, 0, ifNull(1 - suspects.lexical_score, 0))) AS low_lexical,
    max(suspects.filed_at) AS last_at
  FROM (SELECT * EXCEPT (keys), key FROM suspects ARRAY JOIN keys AS key) AS suspects
  LEFT JOIN (
    SELECT signal_id, weight, key FROM current_signals ARRAY JOIN keys AS key
  ) AS aims ON suspects.key = aims.key
  LEFT JOIN verdicts ON suspects.trace_id = verdicts.trace_id
  GROUP BY conversation, signal_id
)
SELECT
  conversation,
  greatest(max(low_lexical), tail) AS lexical,
  sum(weight) + max(faults) AS others,
  -- The same numbers in another order may come to a hair less.
  multiIf(
    countIf(signal_id != '') > 25 OR max(last_at) >= {recent:DateTime64(6, 'UTC')}, inf,
    others > 0, others + lexical + 1e-9,
    lexical
  ) AS high,
  tail AS unseen
FROM met
GROUP BY conversation
HAVING high > 0
ORDER BY high DESC, max(last_at) DESC, conversation
LIMIT {limit:UInt32}
