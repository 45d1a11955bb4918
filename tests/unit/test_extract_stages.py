"""Documents, stages, calls, errors and odd trees in the record of one request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.citations import citations_in
from collector.extract import extract
from collector.model import RagRequest, Trace
from tests.fakes.requests import Attributes, chain, ids_of, llm, record, reranker, retriever
from tests.fakes.spans import START_NS, TRACE_ID, event, span, trace

# --- Documents and stages ----------------------------------------------------------------


def test_the_reranked_list_is_the_final_context() -> None:
    request = record(
        span(0, chain()),
        span(1, retriever("a", "b", "c"), parent=0),
        span(20, reranker("c", "a"), parent=0),
    )
    assert ids_of(request) == ["c", "a"]
    assert [d.score_kind for d in request.documents] == ["rerank", "rerank"]
    assert (request.retriever_stages, request.reranker_stages) == (1, 1)


def test_a_reranker_inside_a_retriever_is_spoken_for_by_it() -> None:
    request = record(
        span(0, chain()),
        span(1, retriever("c"), parent=0, end_ns=START_NS + 90_000_000),
        span(2, retriever("a", "b", "c"), parent=1),
        span(20, reranker("c", "a"), parent=1),
    )
    assert ids_of(request) == ["c"]
    assert (request.retriever_stages, request.reranker_stages) == (1, 1)


def test_a_mute_outer_retriever_leaves_the_word_to_the_inner_ones() -> None:
    request = record(
        span(0, chain()),
        span(1, {"openinference.span.kind": "RETRIEVER"}, parent=0),
        span(2, retriever("a"), parent=1),
        span(3, retriever("b", "a"), parent=1),
    )
    assert ids_of(request) == ["a", "b"]
    assert [d.rank for d in request.documents] == [1, 2]
    assert request.retriever_stages == 2


def test_several_searches_of_an_agent_are_united() -> None:
    agent = {"openinference.span.kind": "AGENT", "input.value": "Q?", "output.value": "A."}
    request = record(
        span(0, agent),
        span(1, retriever("a", "b"), parent=0),
        span(15, llm("Q?", None), parent=0, end_ns=START_NS + 16_000_000),
        span(20, retriever("b", "c"), parent=0),
        span(40, reranker("c"), parent=0),
    )
    assert ids_of(request) == ["a", "b", "c"]


def test_a_wrapper_that_repeats_the_list_of_its_child_counts_once() -> None:
    request = record(
        span(0, chain()),
        span(1, retriever("a", "b"), parent=0),
        span(2, retriever("a", "b"), parent=1),
        span(3, {"db.system": "chroma", "db.operation": "query"}, parent=2),
    )
    assert ids_of(request) == ["a", "b"]
    assert request.retriever_stages == 1


def test_a_tool_that_returns_documents_is_a_search() -> None:
    result = '[{"id": 1, "text": "Returns within 30 days.", "source": "a.pdf"}]'
    request = record(
        span(0, {"gen_ai.operation.name": "invoke_agent"}),
        span(
            1,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "search_kb",
                "gen_ai.tool.call.result": result,
            },
            parent=0,
        ),
        span(2, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": "x"}, parent=0),
    )
    assert ids_of(request) == ["1"]
    assert request.retriever_stages == 1
    assert request.stages[0].name == "search_kb"


def test_a_tool_around_a_retriever_does_not_count_again() -> None:
    request = record(
        span(0, chain()),
        span(1, {"openinference.span.kind": "TOOL", "output.value": "[1] The text"}, parent=0),
        span(2, retriever("a"), parent=1),
    )
    assert request.retriever_stages == 1
    assert ids_of(request) == ["a"]


def test_a_search_that_found_nothing_is_known_to_be_empty() -> None:
    request = record(span(0, chain("Q?", "See [1].")), span(1, retriever(), parent=0))
    assert request.documents == []
    assert request.flags == ["empty_retrieval"]
    assert request.citations == [1]


def test_a_search_whose_result_was_not_captured_is_unknown_not_empty() -> None:
    request = record(span(0, chain()), span(1, {"gen_ai.operation.name": "retrieval"}, parent=0))
    assert request.flags == []
    assert request.stages[0].documents is None


def test_ranks_of_a_list_that_lost_its_head_stay_true() -> None:
    attributes = {
        "openinference.span.kind": "RETRIEVER",
        "retrieval.documents.17.document.content": "The text of page 17.",
    }
    request = record(span(0, chain()), span(1, attributes, parent=0, dropped_attributes=37))
    assert [d.rank for d in request.documents] == [18]
    assert request.flags == ["attributes_dropped"]


def test_bm25_scores_are_told_from_similarities() -> None:
    output = '{"documents": [{"id": "a", "content": "x", "score": 7.3}]}'
    request = record(
        span(0, chain()),
        span(
            1,
            {
                "haystack.component.type": "InMemoryBM25Retriever",
                "haystack.component.output": output,
            },
            parent=0,
        ),
    )
    assert [(d.score, d.score_kind) for d in request.documents] == [(7.3, "bm25")]


def test_a_joiner_replaces_the_lists_it_joins() -> None:
    def component(kind: str, *ids: str) -> Attributes:
        documents = [{"id": i, "content": "x"} for i in ids]
        output = json.dumps({"documents": documents})
        return {"haystack.component.type": kind, "haystack.component.output": output}

    request = record(
        span(0, chain()),
        span(1, component("BM25Retriever", "a", "b"), parent=0),
        span(2, component("EmbeddingRetriever", "c"), parent=0),
        span(20, component("DocumentJoiner", "c", "a"), parent=0),
    )
    assert ids_of(request) == ["c", "a"]
    assert (request.retriever_stages, request.reranker_stages) == (2, 0)


# --- Calls, tokens, cost -----------------------------------------------------------------


def test_only_leaf_calls_count_and_sums_on_agents_do_not() -> None:
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.usage.input_tokens": 297,
        "gen_ai.usage.output_tokens": 187,
    }
    chat = {"gen_ai.operation.name": "chat", "gen_ai.usage.cache_read.input_tokens": 20}
    request = record(
        span(0, agent),
        span(1, chat | {"gen_ai.usage.input_tokens": 134, "operation.cost": 0.1}, parent=0),
        span(2, chat | {"gen_ai.usage.input_tokens": 163, "operation.cost": 0.2}, parent=0),
        span(3, {"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 9}, parent=0),
    )
    assert (request.llm_calls, request.input_tokens, request.output_tokens) == (2, 297, None)
    assert request.cached_tokens == 40
    assert request.cost_usd == pytest.approx(0.3)


def test_an_agent_that_alone_was_exported_lends_its_sum() -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 174}
    request = record(
        span(
            0,
            agent
            | {
                "gen_ai.output.messages": '[{"role":"assistant",'
                '"parts":[{"type":"text","content":"A."}]}]'
            },
        )
    )
    assert (request.llm_calls, request.input_tokens, request.answer) == (0, 174, "A.")


def test_a_span_around_one_call_is_the_same_call() -> None:
    request = record(
        span(0, chain()),
        span(1, llm(**{"llm.model_name": "outer"}), parent=0),
        span(2, llm(), parent=1),
    )
    assert (request.llm_calls, request.input_tokens) == (1, 100)


def test_a_call_whose_tool_calls_a_sub_agent_stays_a_call() -> None:
    request = record(
        span(0, llm()),
        span(1, {"openinference.span.kind": "TOOL"}, parent=0),
        span(2, llm("sub", "result"), parent=1),
    )
    assert (request.llm_calls, request.input_tokens) == (2, 200)


def test_the_model_is_that_of_the_answering_call() -> None:
    request = record(
        span(0, chain("Q?", None)),
        span(1, llm(answered="rewritten", **{"llm.model_name": "small"}), parent=0),
        span(2, llm(answered="A.", **{"llm.model_name": "large"}), parent=0),
    )
    assert (request.model, request.answer) == ("large", "A.")


def test_response_ids_and_the_apps_message_id_are_collected() -> None:
    chat = {"gen_ai.operation.name": "chat"}
    spans = (
        span(0, chat | {"gen_ai.response.id": "r-1", "app.message_id": "m-9"}),
        span(1, chat | {"gen_ai.response.id": "r-2"}, parent=0),
    )
    request = record(*spans, message_id_attribute="app.message_id")
    assert request.response_ids == ["r-1", "r-2"]
    assert request.message_id == "m-9"
    assert record(*spans).message_id is None


def test_the_first_token_is_timed_from_the_start_of_the_answering_call() -> None:
    first = event("First Token Stream Event", at_ms=9)
    request = record(span(0, chain()), span(2, llm(), parent=0, events=[first]))
    assert request.ttft_ms == 7


# --- Errors ------------------------------------------------------------------------------


def test_the_deepest_failed_step_names_the_error() -> None:
    failure = event(
        "exception",
        {
            "exception.type": "TimeoutError",
            "exception.message": "store timed out\nTraceback (most recent call last):\n  secret",
        },
    )
    failed: dict[str, Any] = {"status_code": 2, "events": [failure]}
    request = record(
        span(0, chain("Q?", None), **failed),
        span(1, chain("Q?", None), parent=0, **failed),
        span(2, retriever(), parent=1, **failed),
    )
    assert request.status == "error"
    assert request.error is not None
    assert (request.error.stage, request.error.type) == ("retriever", "TimeoutError")
    assert request.error.message == "store timed out"
    assert request.flags == []
    assert request.stages[0].error == "TimeoutError"


def test_a_failed_step_below_a_fine_root_was_recovered_from() -> None:
    request = record(
        span(0, chain(), status_code=1),
        span(1, llm("Q?", None), parent=0, status_code=2),
        span(2, llm(), parent=0),
    )
    assert (request.status, request.error, request.answer) == ("ok", None, "A.")


def test_an_unset_status_is_no_failure() -> None:
    assert record(span(0, chain())).status == "ok"


def test_without_an_answer_a_failed_last_step_is_the_end() -> None:
    request = record(
        span(0, {"http.method": "POST"}),
        span(1, retriever("a"), parent=0),
        span(2, {"gen_ai.operation.name": "chat", "error.type": "rate_limit"}, parent=0),
    )
    assert request.error is not None
    assert (request.error.stage, request.error.type) == ("llm", "rate_limit")


# --- Odd trees ---------------------------------------------------------------------------


def test_an_orphan_stands_in_for_the_missing_root_and_says_so() -> None:
    request = record(span(1, chain("Q?", "A."), parent=0))
    assert (request.question, request.latency_ms) == ("Q?", 10)
    assert "partial" in request.flags


def test_a_server_span_whose_caller_is_not_traced_here_is_whole() -> None:
    request = record(span(1, {"http.method": "POST"}, parent=0, kind=2), span(2, chain(), parent=1))
    assert "partial" not in request.flags


def test_a_trace_that_was_closed_early_is_partial() -> None:
    whole = trace(span(0, chain()))
    cut = Trace(trace_id=TRACE_ID, spans=whole.spans, closed_by="evicted")
    request = extract(cut)
    assert isinstance(request, RagRequest)
    assert "partial" in request.flags


def test_parents_in_a_circle_do_no_harm() -> None:
    request = record(span(0, chain(), parent=2), span(1, llm(), parent=0), span(2, parent=1))
    assert request.llm_calls == 1
    assert record(span(0, chain(), parent=0)).question == "Q?"


def test_the_conversation_of_the_root_wins_over_that_of_a_sub_agent() -> None:
    request = record(
        span(0, chain(**{"session.id": "root"})),
        span(1, {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "sub"}, parent=0),
    )
    assert request.conversation_id == "root"


@pytest.mark.parametrize(
    ("answer", "citations"),
    [
        ("See [1] and [2], again [1].", [1, 2]),
        ("See [2, 3; 4].", [2, 3, 4]),
        ("From [ID:0] and [ID:3].", [1, 4]),
        ("From [doc2].", [2]),
        ("Nothing [here] or [0] or [2024].", []),
        ("A link [text](https://x.example).", []),
    ],
)
def test_citations_are_one_based_numbers(answer: str, citations: list[int]) -> None:
    assert citations_in(answer) == citations


def test_one_trace_may_mix_conventions() -> None:
    request = record(
        span(
            0,
            {
                "traceloop.span.kind": "workflow",
                "traceloop.entity.input": '{"args": ["Q?"]}',
                "traceloop.entity.output": '"A."',
            },
        ),
        span(1, retriever("a"), parent=0),
        span(2, {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7}, parent=0),
    )
    assert request.conventions == ["openllmetry", "openinference", "otel-genai"]
    assert (request.question, request.answer, request.input_tokens) == ("Q?", "A.", 7)
    assert ids_of(request) == ["a"]
