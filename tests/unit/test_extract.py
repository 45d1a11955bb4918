"""From the spans of a trace to the record of one request: the rules, one by one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec

from collector.extract import extract
from collector.model import LogRecord, NotARequest, RagRequest
from collector.otlp import collect_trace
from tests.fakes.requests import chain, ids_of, llm, reason, record, retriever
from tests.fakes.spans import START_NS, TRACE_ID, span, span_id, trace

# --- The whole record --------------------------------------------------------------------


def test_a_plain_rag_request_is_read_in_full() -> None:
    request = record(
        span(
            0,
            chain(
                "What does Pro cost?", "Pro costs 12 [1].", **{"session.id": "s", "user.id": "u"}
            ),
            end_ns=START_NS + 50_000_000,
            resource={"service.name": "helpdesk"},
        ),
        span(1, retriever("kb-1", "kb-2"), parent=0, name="search"),
        span(2, llm("prompt", "Pro costs 12 [1].", **{"llm.model_name": "m-1"}), parent=0),
    )
    assert request.trace_id == TRACE_ID
    assert request.service == "helpdesk"
    assert request.conventions == ["openinference"]
    assert request.started_at == datetime.fromtimestamp(START_NS / 1e9, UTC)
    assert request.latency_ms == 50
    assert (request.question, request.answer) == ("What does Pro cost?", "Pro costs 12 [1].")
    assert (request.conversation_id, request.user_id) == ("s", "u")
    assert ids_of(request) == ["kb-1", "kb-2"]
    assert [document.cited for document in request.documents] == [True, False]
    assert request.citations == [1]
    assert (request.retriever_stages, request.reranker_stages, request.llm_calls) == (1, 0, 1)
    assert (request.input_tokens, request.output_tokens, request.model) == (100, 10, "m-1")
    assert (request.status, request.error, request.flags) == ("ok", None, [])
    assert [(s.kind, s.name, s.query, s.documents) for s in request.stages] == [
        ("retriever", "search", "Q?", 2),
        ("llm", "step 2", None, None),
    ]


def test_what_is_not_known_is_none_and_never_zero_or_empty() -> None:
    request = record(span(0, {"openinference.span.kind": "LLM"}, start_ns=None, end_ns=None))
    unknown = {name for name, value in msgspec.structs.asdict(request).items() if value is None}
    assert unknown >= {"started_at", "latency_ms", "ttft_ms", "question", "answer", "model"}
    assert unknown >= {"input_tokens", "output_tokens", "cached_tokens", "cost_usd", "provider"}
    assert unknown >= {"conversation_id", "user_id", "message_id", "service", "segment", "error"}
    assert set(request.flags) == {"content_missing", "no_retrieval"}


# --- Which traces are requests -----------------------------------------------------------


def test_plumbing_alone_is_no_request() -> None:
    assert reason(span(0, {"http.method": "GET"}, status_code=2)) == "no_genai"
    assert reason() == "no_genai"


def test_log_records_without_their_spans_are_no_request() -> None:
    lonely = LogRecord(trace_id=TRACE_ID, span_id=span_id(1), event_name="gen_ai.choice")
    found = extract(collect_trace(TRACE_ID, [], [lonely]))
    assert found == NotARequest(reason="no_genai")


def test_embedding_alone_is_no_request() -> None:
    assert reason(span(0, {"ai.operationId": "ai.embed"})) == "embedding_only"


def test_an_evaluation_is_no_user_request() -> None:
    judge = span(0, {"openinference.span.kind": "EVALUATOR"})
    assert reason(judge, span(1, llm(), parent=0)) == "evaluation"


def test_a_judge_below_a_request_adds_nothing_to_it() -> None:
    request = record(
        span(0, chain()),
        span(1, llm(), parent=0),
        span(2, {"openinference.span.kind": "EVALUATOR"}, parent=0),
        span(3, llm("rate", "5"), parent=2),
    )
    assert (request.llm_calls, request.input_tokens, request.answer) == (1, 100, "A.")


def test_start_up_noise_and_placeholders_are_no_requests() -> None:
    assert reason(span(0, name="haystack.tracing.auto_enable", status_code=2)) == "startup_noise"
    assert reason(span(0, {"logfire.span_type": "pending_span"})) == "pending"


def test_a_lone_tool_or_search_without_question_and_answer_is_no_request() -> None:
    assert reason(span(0, {"openinference.span.kind": "TOOL", "output.value": "x"})) == "no_content"
    assert reason(span(0, retriever("kb-1"))) == "no_content"


# --- Question and answer -----------------------------------------------------------------


def test_the_question_is_what_the_root_was_asked_not_the_rewritten_one() -> None:
    request = record(
        span(0, chain("and what about Pro?", "12.")),
        span(1, llm("Rephrase: and what about Pro?", "What does Pro cost?"), parent=0),
        span(2, retriever("kb-1", query="What does Pro cost?"), parent=0),
        span(3, llm("prompt", "12."), parent=0),
    )
    assert request.question == "and what about Pro?"
    assert request.llm_calls == 2


def test_an_http_root_is_mute_and_the_span_below_it_speaks() -> None:
    request = record(
        span(0, {"http.method": "POST", "session.id": "s", "enduser.id": "u"}, name="POST /ask"),
        span(1, chain("Q?", "A."), parent=0),
    )
    assert (request.question, request.answer) == ("Q?", "A.")
    assert (request.conversation_id, request.user_id) == ("s", "u")
    assert request.latency_ms == 10


def test_question_and_answer_of_independent_calls_come_from_the_same_call() -> None:
    request = record(
        span(0, {"http.method": "POST"}),
        span(1, llm("first question", "first answer"), parent=0),
        span(2, llm("second question", "second answer"), parent=0),
        span(
            3,
            llm("third question", None)
            | {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "t"},
            parent=0,
        ),
    )
    assert (request.question, request.answer) == ("second question", "second answer")


def test_an_answer_that_only_streams_is_taken_from_the_last_call() -> None:
    request = record(
        span(0, chain("Q?", '{"response_gen": "<generator object>", "response_txt": null}')),
        span(1, llm("prompt", "streamed answer "), parent=0),
    )
    assert request.answer == "streamed answer "


def test_a_call_for_a_title_is_not_the_answer() -> None:
    request = record(
        span(0, {"http.method": "POST"}),
        span(1, llm("What does Pro cost?", "Pro costs 12."), parent=0),
        span(2, llm("Title for this chat", "Prices"), parent=0, name="generate_title"),
    )
    assert (request.question, request.answer) == ("What does Pro cost?", "Pro costs 12.")


def test_the_calls_inside_a_search_do_not_answer() -> None:
    request = record(
        span(0, chain("Q?", None)),
        span(1, retriever("kb-1"), parent=0),
        span(2, llm("make variants", "variant one", **{}), parent=1, end_ns=START_NS + 10**9),
        span(3, llm("prompt", "the answer"), parent=0),
    )
    assert request.answer == "the answer"
    assert request.llm_calls == 2


def test_a_prompt_with_the_documents_in_it_is_cut_down_to_the_question() -> None:
    prompt = "Context:\nThe text of page kb-1.\n\nQuestion: What does Pro cost?\nAnswer:"
    with_query = record(
        span(0, {"http.method": "POST"}),
        span(1, retriever("kb-1", query="What does Pro cost?"), parent=0),
        span(2, llm(prompt, "12."), parent=0),
    )
    rewritten = record(
        span(0, {"http.method": "POST"}),
        span(1, retriever("kb-1", query="price of the Pro plan"), parent=0),
        span(2, llm(prompt, "12."), parent=0),
    )
    assert with_query.question == rewritten.question == "What does Pro cost?"


def test_a_query_inside_a_real_question_does_not_replace_it() -> None:
    request = record(
        span(0, chain("What is the return policy?", "30 days.")),
        span(1, retriever("kb-1", query="return policy"), parent=0),
    )
    assert request.question == "What is the return policy?"


def test_content_in_log_records_joins_its_span() -> None:
    call = span(0, {"gen_ai.operation.name": "chat"})
    logs = (
        LogRecord(
            trace_id=TRACE_ID,
            span_id=call.span_id,
            event_name="gen_ai.user.message",
            body={"content": "Q?"},
        ),
        LogRecord(
            trace_id=TRACE_ID,
            span_id=call.span_id,
            event_name="gen_ai.choice",
            body={"index": 0, "message": {"role": "assistant", "content": "A."}},
        ),
    )
    request = extract(trace(call, logs=logs))
    assert isinstance(request, RagRequest)
    assert (request.question, request.answer) == ("Q?", "A.")


def test_content_sent_as_structured_values_is_read_like_json_text() -> None:
    request = record(
        span(0, {"openinference.span.kind": "CHAIN", "input.value": {"question": "Q?"}}),
        span(
            1,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.output.messages": [
                    {"role": "assistant", "parts": [{"type": "text", "content": "A."}]}
                ],
            },
            parent=0,
        ),
    )
    assert (request.question, request.answer) == ("Q?", "A.")


def test_json_encoded_twice_is_read() -> None:
    twice = json.dumps(json.dumps({"question": "Q?"}))
    assert record(span(0, chain(twice, json.dumps("A.")))).question == "Q?"


def test_captured_nothing_is_missing_not_empty() -> None:
    request = record(span(0, {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5}))
    assert (request.question, request.answer, request.input_tokens) == (None, None, 5)
    assert "content_missing" in request.flags


def test_a_request_that_ends_in_a_tool_call_says_so() -> None:
    calling = llm("Q?", None)
    calling["llm.output_messages.0.message.tool_calls.0.tool_call.function.name"] = "search"
    request = record(span(0, calling))
    assert request.answer is None
    assert set(request.flags) == {"no_retrieval", "tool_call_answer"}


def test_json_that_was_cut_off_is_flagged_and_never_shown_as_the_answer() -> None:
    request = record(span(0, chain('{"question": "Q?"}', '{"answer": "Pro costs tw')))
    assert request.question == "Q?"
    assert request.answer is None
    assert "truncated" in request.flags
