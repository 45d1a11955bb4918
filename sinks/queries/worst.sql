-- The worst conversations of a window, and why each is here.
--
-- Parameters
--   since, until    window of filed_at, the start of the request; until is excluded
--   segment         one segment, or '' for all
--   fingerprint     whose judgements count
--   limit           how many conversations
--   conversations   the only ones to look at; empty for all of the window
--   trace_ids, times   of their requests, see places.sql
--
-- One row per conversation: conversation_id, or the trace id of a request without one. `badness`
-- is the sum of these columns; the first seven add up over the conversation, the others are those
-- of its worst request (the one with the most of them and of signals of its own):
--   thumbs_down     3 each; a thumbs_up of negative value is one
--   low_rating      2 each rating that says no
--   rephrase, push_back, regenerate, abandon    1.5 each
--   repeated_clicks 0.5 each
--   contradicted    2 per contradicted claim, at most 2 claims
--   unsupported     1 per claim that the documents do not hold, at most 3 claims
--   low_lexical     1 - lexical score while there is no judged score
--   no_context      1 for an answer given without any document
--   failed_request  1.5 where the request ended in an error
--   stray_citation  1 where a citation points to no document
-- A signal that was inferred counts its confidence times that, and nothing beside one of the same
-- kind that was sent. A signal that was taken back counts nothing. Conversations with a badness of 0 are left out.
--
-- Of the signals on one request 100 count, of those on a conversation as a whole 25.
--
-- Also: trace_ids and questions of the conversation in order of time (100 at most), and of its
-- worst request all that a reviewer reads: question, answer, documents, claims, score, ...;
-- `signals` are the first 50 of the whole conversation, complaints before others, in order of time;
-- `signals_total` says how many there are, `marks` (complaint, source, confidence) of each one.
WITH
{{ current_signals }},
newest AS (
  SELECT
    trace_id, filed_at,
    ifNull(conversation_id, trace_id) AS conversation,
    ifNull(segment, 'unknown') AS segment,
    answer IS NOT NULL AS answered,
    status = 'error' AS broken,
    hasAny(flags, ['empty_retrieval', 'no_retrieval']) AS contextless,
    arrayExists(rank -> NOT has(documents.rank, rank), citations) AS stray,
    lexical_score,
    question,
    {{ request_keys }} AS keys
  FROM requests
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
    AND if(
      empty({conversations:Array(String)}), true,
      filed_at IN {times:Array(DateTime64(6, 'UTC'))} AND trace_id IN {trace_ids:Array(String)}
    )
  ORDER BY version DESC
  LIMIT 1 BY trace_id
),
chosen AS (
  SELECT *
  FROM newest
  WHERE ({segment:String} = '' OR segment = {segment:String})
    AND (
      empty({conversations:Array(String)})
      OR conversation IN {conversations:Array(String)}
    )
),
verdicts AS (
  SELECT
    trace_id,
    status = 'judged' AS judged,
    countEqual(claims.verdict, 'CONTRADICTED') AS contradicted_claims,
    countEqual(claims.verdict, 'NOT_FOUND') AS unsupported_claims
  FROM judgements
  WHERE fingerprint = {fingerprint:String}
    AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY
    AND filed_at < {until:DateTime64(6, 'UTC')} + INTERVAL 1 DAY
    AND if(empty({conversations:Array(String)}), true, trace_id IN {trace_ids:Array(String)})
  ORDER BY rank DESC
  LIMIT 1 BY trace_id
),
links AS (
  SELECT trace_id, key FROM chosen ARRAY JOIN keys AS key
),
{{ hits }},
marks AS (
  SELECT
    trace_id,
    sumIf(weight, direct) AS own_weight,
    groupArray((signal_id, complaint, weight, signal, cut)) AS marks
  FROM hits
  GROUP BY trace_id
),
scored AS (
  SELECT
    conversation, trace_id, filed_at, question, own_weight, marks,
    2. * least(contradicted_claims, 2) AS contradicted,
    1. * least(unsupported_claims, 3) AS unsupported,
    if(judged OR lexical_score IS NULL, 0., 1 - assumeNotNull(lexical_score)) AS low_lexical,
    1. * (answered AND contextless) AS no_context,
    1.5 * broken AS failed_request,
    1. * stray AS stray_citation,
    contradicted + unsupported + low_lexical + no_context + failed_request + stray_citation
      AS faults
  FROM chosen
  LEFT JOIN verdicts USING (trace_id)
  LEFT JOIN marks USING (trace_id)
),
conversations AS (
  SELECT
    conversation,
    count() AS requests,
    min(filed_at) AS first_at,
    max(filed_at) AS last_at,
    arraySlice(arraySort(groupArray((filed_at, trace_id, question))), 1, 100) AS turns,
    arrayMap(turn -> turn.2, turns) AS trace_ids,
    arrayMap(turn -> turn.3, turns) AS questions,
    -- A signal on the conversation marks each of its requests: it counts once.
    groupUniqArrayArray(marks) AS unique_marks,
    argMax(
      (trace_id, faults, contradicted, unsupported, low_lexical, no_context, failed_request,
       stray_citation),
      (own_weight + faults, filed_at, trace_id)
    ) AS worst
  FROM scored
  GROUP BY conversation
),
ranking AS (
  SELECT
    conversation, requests, first_at, last_at, trace_ids, questions,
    arraySum(mark -> if(mark.2 = 'thumbs_down', mark.3, 0), unique_marks) AS thumbs_down,
    arraySum(mark -> if(mark.2 = 'low_rating', mark.3, 0), unique_marks) AS low_rating,
    arraySum(mark -> if(mark.2 = 'rephrase', mark.3, 0), unique_marks) AS rephrase,
    arraySum(mark -> if(mark.2 = 'push_back', mark.3, 0), unique_marks) AS push_back,
    arraySum(mark -> if(mark.2 = 'regenerate', mark.3, 0), unique_marks) AS regenerate,
    arraySum(mark -> if(mark.2 = 'abandon', mark.3, 0), unique_marks) AS abandon,
    arraySum(mark -> if(mark.2 = 'repeated_clicks', mark.3, 0), unique_marks) AS repeated_clicks,
    arraySort(
      signal -> signal.3,
      arraySlice(
        arraySort(
          signal -> (signal.complaint = '', signal.3), arrayMap(mark -> mark.4, unique_marks)
        ),
        1, 50
      )
    ) AS signals,
    length(unique_marks)
      + arraySum(cut -> cut.2, arrayDistinct(arrayMap(mark -> mark.5, unique_marks)))
      AS signals_total,
    CAST(
      arrayMap(mark -> (mark.2, mark.4.source, mark.4.confidence), unique_marks),
      'Array(Tuple(complaint String, source String, confidence Nullable(Float64)))'
    ) AS marks,
    worst.1 AS worst_trace_id,
    worst.3 AS contradicted,
    worst.4 AS unsupported,
    worst.5 AS low_lexical,
    worst.6 AS no_context,
    worst.7 AS failed_request,
    worst.8 AS stray_citation,
    thumbs_down + low_rating + rephrase + push_back + regenerate + abandon + repeated_clicks
      + worst.2 AS badness
  FROM conversations
  WHERE badness > 0
  ORDER BY badness DESC, last_at DESC, conversation
  LIMIT {limit:UInt32}
),
-- The ranking stands on the right of both joins: it is worked out once, and its few ids then
-- filter what is read on the left.
with_request AS (
  SELECT
    ranking.*,
    service, segment, model, started_at, question, answer, status, flags, error_stage, error_type,
    citations, lexical_score, sampled, probability,
    {{ documents }} AS documents
  FROM requests
  INNER JOIN ranking ON requests.trace_id = ranking.worst_trace_id
  WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND filed_at < {until:DateTime64(6, 'UTC')}
    AND if(
      empty({conversations:Array(String)}), true,
      filed_at IN {times:Array(DateTime64(6, 'UTC'))} AND trace_id IN {trace_ids:Array(String)}
    )
  ORDER BY version DESC
  LIMIT 1 BY worst_trace_id
),
details AS (
  SELECT trace_id, rank, status, score, reason, {{ claims }} AS claims
  FROM judgements
  WHERE fingerprint = {fingerprint:String}
    AND filed_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY
    AND filed_at < {until:DateTime64(6, 'UTC')} + INTERVAL 1 DAY
    AND if(empty({conversations:Array(String)}), true, trace_id IN {trace_ids:Array(String)})
)
SELECT * EXCEPT (latest)
FROM (
  SELECT
    with_request.*,
    details.status AS judgement_status,
    details.score AS score,
    details.reason AS reason,
    details.claims AS claims,
    details.rank AS latest
  FROM details
  RIGHT JOIN with_request ON details.trace_id = with_request.worst_trace_id
  ORDER BY latest DESC
  LIMIT 1 BY worst_trace_id
)
ORDER BY badness DESC, last_at DESC, conversation
