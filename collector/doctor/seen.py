"""What a request shows of itself, as yes and no: the same from a trace and from the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from collector.model import RagRequest, Span, Trace

_STREAM_KEYS = (
    "gen_ai.request.stream",
    "gen_ai.request.is_stream",
    "gen_ai.is_streaming",
    "llm.is_streaming",
)
_SAMPLER_KEYS = (
    "sampler.param",
    "sampling.rate",
    "SampleRate",
    "sampleRate",
    "_sampling_priority_v1",
    "microsoft.sample_rate",
    "_MS.sampleRate",
)
"""Where samplers of Jaeger, Honeycomb, Datadog and Azure leave their mark on a span."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What `count` requests of one service have in common; `example` is the trace id of one.

    `searched`: a retrieval step is in the trace. `documents`: it gave some; `found_nothing`: it is
    known to have found none. `texts`: at least one has its text; `sources`: each has an id or a
    source. `called`: a model call is in the trace. `hints` are known from whole traces only.
    """

    service: str | None
    conventions: tuple[str, ...]
    example: str
    count: int = 1
    question: bool = True
    answer: bool = True
    answered_by_tool_call: bool = False
    failed: bool = False
    searched: bool = True
    found_nothing: bool = False
    documents: bool = True
    texts: bool = True
    sources: bool = True
    conversation: bool = True
    user: bool = True
    called: bool = True
    model: bool = True
    tokens: bool = True
    streamed: bool = False
    timed: bool = True
    truncated: bool = False
    attributes_dropped: bool = False
    partial: bool = False
    hints: frozenset[str] = frozenset()


def seen_of(request: RagRequest, trace: Trace) -> Seen:
    """Return what a request shows of itself, read from its trace."""
    documents = request.documents
    return Seen(
        service=request.service,
        conventions=tuple(request.conventions),
        example=request.trace_id,
        question=request.question is not None,
        answer=request.answer is not None,
        answered_by_tool_call="tool_call_answer" in request.flags,
        failed=request.status == "error",
        searched="no_retrieval" not in request.flags,
        found_nothing="empty_retrieval" in request.flags,
        documents=bool(documents),
        texts=any(document.text for document in documents),
        sources=all(document.document_id or document.source for document in documents),
        conversation=request.conversation_id is not None,
        user=request.user_id is not None,
        called=request.llm_calls > 0,
        model=request.model is not None,
        tokens=request.input_tokens is not None and request.output_tokens is not None,
        streamed=request.ttft_ms is not None or any(map(_is_streamed, trace.spans)),
        timed=request.latency_ms is not None,
        truncated="truncated" in request.flags,
        attributes_dropped="attributes_dropped" in request.flags,
        partial="partial" in request.flags,
        hints=_hints(trace),
    )


def seen_of_row(row: Mapping[str, Any]) -> Seen:
    """Return what a row of the query `doctor` says; its columns are the fields."""
    return msgspec.convert(row, Seen, strict=False)


def _hints(trace: Trace) -> frozenset[str]:
    """Return `no_logs` and `sampled_unsaid`, where they hold."""
    spans = trace.spans
    sampled = any(key in span.attributes for span in spans for key in _SAMPLER_KEYS)
    said = any("ot=" in span.trace_state and "th:" in span.trace_state for span in spans)
    hints = {"no_logs": not trace.logs, "sampled_unsaid": sampled and not said}
    return frozenset(name for name, holds in hints.items() if holds)


def _is_streamed(span: Span) -> bool:
    attributes = span.attributes
    if any(attributes.get(key) is True for key in _STREAM_KEYS):
        return True
    if str(attributes.get("ai.operationId", "")).startswith("ai.stream"):
        return True
    return '"stream": true' in str(attributes.get("llm.invocation_parameters", ""))
