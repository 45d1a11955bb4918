"""Extraction never fails, and gives one record however the spans of a trace came in."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.extract import extract
from collector.model import NotARequest, RagRequest, Span, SpanEvent, Trace
from collector.otlp import collect_trace, decode_traces, merge_traces
from tests.fakes.spans import TRACE_ID

DATA = Path(__file__).parents[1] / "data"
RECORDINGS = sorted(DATA.glob("*.pb"))


def recorded(path: Path) -> list[Trace]:
    spans = decode_traces(path.read_bytes(), "application/x-protobuf").spans
    return [
        collect_trace(trace_id, [s for s in spans if s.trace_id == trace_id])
        for trace_id in dict.fromkeys(s.trace_id for s in spans)
    ]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", range(5))
def test_spans_split_shuffled_and_repeated_give_the_same_record(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for trace in recorded(path):
        spans = [*trace.spans, *chance.choices(trace.spans, k=len(trace.spans) // 2)]
        chance.shuffle(spans)
        bodies = [spans[start :: chance.randint(2, 4)] for start in range(4)]
        merged = collect_trace(trace.trace_id, [])
        for body in (*bodies, spans):
            merged = merge_traces(merged, collect_trace(trace.trace_id, body))
        assert extract(merged) == extract(trace)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", range(5))
def test_a_trace_with_spans_missing_is_still_read(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for trace in recorded(path):
        kept = [span for span in trace.spans if chance.random() < 0.6]
        result = extract(collect_trace(trace.trace_id, kept))
        assert isinstance(result, RagRequest | NotARequest)


KEYS = st.sampled_from(
    [
        "openinference.span.kind",
        "input.value",
        "output.value",
        "llm.input_messages.0.message.role",
        "llm.input_messages.0.message.content",
        "llm.input_messages.99999999999.message.content",
        "retrieval.documents.0.document.content",
        "retrieval.documents.-1.document.content",
        "retrieval.documents.1.document.metadata",
        "llm.token_count.prompt",
        "llm.cost.total",
        "metadata",
        "session.id",
        "gen_ai.operation.name",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.prompt.0.content",
        "gen_ai.prompt.__proto__.role",
        "gen_ai.completion.0.content",
        "gen_ai.prompt",
        "gen_ai.completion",
        "gen_ai.retrieval.documents",
        "gen_ai.tool.call.result",
        "gen_ai.usage.input_tokens",
        "traceloop.span.kind",
        "traceloop.entity.name",
        "traceloop.entity.input",
        "traceloop.entity.output",
        "langfuse.observation.type",
        "langfuse.observation.input",
        "langfuse.observation.level",
        "langfuse.observation.output",
        "langfuse.observation.usage_details",
        "langfuse.observation.cost_details",
        "langfuse.observation.completion_start_time",
        "mlflow.spanType",
        "mlflow.spanInputs",
        "mlflow.spanOutputs",
        "mlflow.chat.tokenUsage",
        "ai.operationId",
        "ai.prompt",
        "ai.prompt.messages",
        "ai.response.text",
        "ai.response.toolCalls",
        "ai.toolCall.result",
        "langsmith.span.kind",
        "haystack.component.type",
        "haystack.component.output",
        "haystack.pipeline.input_data",
        "logfire.span_type",
        "pydantic_ai.all_messages",
        "final_result",
        "gcp.vertex.agent.llm_request",
        "gcp.vertex.agent.llm_response",
        "genkit:type",
        "genkit:output",
        "db.system",
        "db.operation",
        "error.type",
    ]
)
NAMES = st.sampled_from(
    [
        "LLM",
        "RETRIEVER",
        "RERANKER",
        "CHAIN",
        "AGENT",
        "TOOL",
        "EMBEDDING",
        "EVALUATOR",
        "chat",
        "retrieval",
        "execute_tool",
        "invoke_agent",
        "workflow",
        "task",
        "generation",
        "retriever",
        '"CHAT_MODEL"',
        "ai.generateText",
        "ai.toolCall",
        "llm",
        "OpenAIChatGenerator",
        "InMemoryRetriever",
        "pending_span",
        "ERROR",
    ]
)
TEXTS = st.sampled_from(
    [
        "",
        "null",
        "123",
        "What does Pro cost?",
        "Pro costs 12 a month [1].",
        "[1] not json",
        '{"question": "What does Pro cost?"',
        '{"documents": [{"id": "a", "page_content": "Pro costs 12.", "metadata": {"page": 3}}]}',
        '[{"role": "user", "content": "What?"}, {"role": "model", "content": [{"text": "So."}]}]',
        '[{"role": "user", "parts": []}]',
        '[["user", "hi"], ["ai", "hello"]]',
        '{"messages": [[{"lc": 1, "id": ["x", "HumanMessage"], "kwargs": {"content": "q"}}]]}',
        '{"args": ["q"], "kwargs": {}}',
        '{"total": 3, "input": 1, "output": 2}',
        '["{\\"node\\": {\\"id_\\": 1, \\"text\\": \\"t\\"}, \\"score\\": 0.5}"]',
        '{"ids": [["a"]], "documents": [["t"]], "distances": [[0.1]]}',
        '{"replies": [{"_content": [{"text": "t"}], "_meta": {"usage": {"prompt_tokens": "3"}}}]}',
        "{'a': 1}",
        '"quoted"',
        "[[[[[[[[[[[[",
        "[" * 5000,
        '{"a":' * 3000,
        "2026-11-29T21:27:41.983Z",
    ]
)
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.binary(max_size=3),
    NAMES,
    TEXTS,
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "parts",
                    "text",
                    "type",
                    "messages",
                    "message",
                    "id",
                    "kwargs",
                    "data",
                    "documents",
                    "metadata",
                    "score",
                    "node",
                    "input",
                    "output",
                    "usage",
                    "replies",
                    "choices",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
span_ids = st.sampled_from([f"{n:016x}" for n in range(1, 6)])
odd_spans = st.builds(
    Span,
    trace_id=st.just(TRACE_ID),
    span_id=span_ids,
    parent_span_id=st.none() | span_ids,
    name=st.sampled_from(["", "rerank", "search_kb", "chat x", "haystack.tracing.auto_enable"]),
    start_ns=st.none() | st.integers(1, 2**64 - 1),
    end_ns=st.none() | st.integers(1, 2**64 - 1),
    attributes=st.dictionaries(KEYS, anything, max_size=6),
    events=st.lists(
        st.builds(
            SpanEvent,
            name=st.sampled_from(
                ["exception", "gen_ai.choice", "gen_ai.user.message", "db.query.result", "x"]
            ),
            attributes=st.dictionaries(
                st.sampled_from(["content", "message", "role", "db.query.result.id"]),
                anything,
                max_size=3,
            ),
        ),
        max_size=2,
    ),
    status_code=st.integers(0, 2),
    scope_name=st.sampled_from(["", "pydantic-ai", "ai"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(odd_spans, max_size=5))
def test_any_attributes_give_a_record_or_a_reason(spans: list[Span]) -> None:
    result = extract(collect_trace(TRACE_ID, spans), message_id_attribute="session.id")
    if isinstance(result, RagRequest):
        msgspec.json.encode(result)
        assert result.question is None or result.question.strip()
        assert result.answer is None or result.answer.strip()
        assert result.input_tokens is None or result.input_tokens >= 0
        assert [d.rank for d in result.documents] == sorted({d.rank for d in result.documents})
    else:
        assert result.reason


@settings(max_examples=50, deadline=None)
@given(st.lists(odd_spans, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_spans_makes_no_difference(spans: list[Span], chance: random.Random) -> None:
    mixed = [*spans, *spans]
    chance.shuffle(mixed)
    first = extract(collect_trace(TRACE_ID, spans))
    second = extract(collect_trace(TRACE_ID, mixed))
    assert msgspec.msgpack.encode(first) == msgspec.msgpack.encode(second)
