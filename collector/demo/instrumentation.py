"""Spans of the assistant: OpenInference on the web channel, OpenTelemetry GenAI in the app.

Times are given, not measured, so that a minute of traffic can be told in a second. Attribute
names are those of the OpenInference specification and of the OpenTelemetry semantic conventions
for generative AI; the latter know no reranker, so the `app` channel has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from collector.demo.assistant import MODEL, Answered
from collector.demo.retrieval import Hit, TermOverlapReranker
from collector.demo.scenario import Pace

SERVICE = "acme-desk-assistant"
_PROVIDER = "acme"
_KNOWLEDGE_BASE = "acme-desk-help"
_USD_PER_INPUT_TOKEN = 0.15e-6
_USD_PER_OUTPUT_TOKEN = 0.60e-6
_NS_PER_MS = 1_000_000


class Told(NamedTuple):
    """What the application knows of a request once it is answered. Ids are lower-case hex."""

    trace_id: str
    response_id: str | None
    started_ns: int
    ended_ns: int


class Caller(NamedTuple):
    """Who asks, in which conversation, after which earlier (question, answer) pairs."""

    conversation_id: str
    user_id: str
    history: Sequence[tuple[str, str]] = ()


class _Times(NamedTuple):
    """Unix nanoseconds at which the stages begin and end."""

    start: int
    retrieved: int
    reranked: int
    first_token: int
    end: int


VERSION = "2026.3"
"""service.version of the assistant as it is at first."""


def tracer_provider(exporter: SpanExporter, version: str = VERSION) -> TracerProvider:
    """Return a provider of its own that hands every ended span to `exporter`.

    Independent of the process: not installed globally, no exit hook, samples everything.
    """
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource.create({"service.name": SERVICE, "service.version": version}),
        shutdown_on_exit=False,
        span_limits=SpanLimits(max_attributes=256),
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def tell(
    provider: TracerProvider, answered: Answered, caller: Caller, pace: Pace, started_ns: int
) -> Told:
    """Emit the spans of one answered question.

    Args:
        provider: where the spans go.
        answered: the question, its answer and what happened on the way.
        caller: ids and history of the conversation.
        pace: how long the stages take.
        started_ns: when the request came in, Unix nanoseconds.
    """
    times = _times(answered, pace, started_ns)
    if answered.channel == "web":
        return _openinference(provider.get_tracer("acme_desk.web"), answered, caller, times)
    return _genai(provider.get_tracer("acme_desk.app"), answered, caller, times)


def _times(answered: Answered, pace: Pace, start: int) -> _Times:
    reranker_ms = pace.reranker_ms if answered.reranked else 0.0
    writing_ms = pace.per_token_ms * answered.output_tokens
    retrieved = start + round(pace.retriever_ms * _NS_PER_MS)
    reranked = retrieved + round(reranker_ms * _NS_PER_MS)
    first_token = reranked + round(pace.first_token_ms * _NS_PER_MS)
    return _Times(start, retrieved, reranked, first_token, first_token + round(writing_ms * 1e6))


def _open(
    tracer: Tracer,
    name: str,
    at_ns: int,
    attributes: Mapping[str, AttributeValue],
    *,
    parent: Span | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Span:
    # An empty context, not None: a span that happens to be current is not our parent.
    context = Context() if parent is None else set_span_in_context(parent, Context())
    return tracer.start_span(
        name, context=context, kind=kind, attributes=attributes, start_time=at_ns
    )


def _told(root: Span, times: _Times, response_id: str | None) -> Told:
    trace_id = f"{root.get_span_context().trace_id:032x}"
    return Told(trace_id, response_id, times.start, times.end)


# --- OpenInference -----------------------------------------------------------------------


def _openinference(tracer: Tracer, answered: Answered, caller: Caller, times: _Times) -> Told:
    root = _open(
        tracer,
        SERVICE,
        times.start,
        {
            **_step("CHAIN", answered.question, caller),
            "input.mime_type": "text/plain",
            "output.value": answered.answer,
            "output.mime_type": "text/plain",
            "metadata": json.dumps({"channel": answered.channel}),
        },
    )
    found = {
        **_step("RETRIEVER", answered.query, caller),
        **_flat_documents("retrieval.documents", answered.candidates),
    }
    _close(_open(tracer, "Bm25Retriever", times.start, found, parent=root), times.retrieved)
    if answered.reranked:
        kept = {**_step("RERANKER", answered.query, caller), **_reranker(answered)}
        reranker = _open(tracer, "TermOverlapReranker", times.retrieved, kept, parent=root)
        _close(reranker, times.reranked)
    said = {**_step("LLM", answered.question, caller), **_llm(answered, caller)}
    llm = _open(tracer, "AcmeChat", times.reranked, said, parent=root)
    llm.add_event("First Token Stream Event", timestamp=times.first_token)
    _close(llm, times.end)
    _close(root, times.end)
    return _told(root, times, None)


def _step(kind: str, asked: str, caller: Caller) -> dict[str, AttributeValue]:
    return {
        "openinference.span.kind": kind,
        "input.value": asked,
        "session.id": caller.conversation_id,
        "user.id": caller.user_id,
    }


def _close(span: Span, at_ns: int) -> None:
    span.set_status(Status(StatusCode.OK))
    span.end(at_ns)


def _reranker(answered: Answered) -> dict[str, AttributeValue]:
    return {
        "reranker.query": answered.query,
        "reranker.model_name": TermOverlapReranker.name,
        "reranker.top_k": len(answered.context),
        **_flat_documents("reranker.input_documents", answered.candidates),
        **_flat_documents("reranker.output_documents", answered.context),
    }


def _flat_documents(prefix: str, hits: Sequence[Hit]) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for index, hit in enumerate(hits):
        key = f"{prefix}.{index}.document"
        found[f"{key}.id"] = hit.page.page_id
        found[f"{key}.content"] = hit.page.text
        found[f"{key}.score"] = hit.score
        found[f"{key}.metadata"] = json.dumps(_about(hit))
    return found


def _llm(answered: Answered, caller: Caller) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "llm.model_name": MODEL,
        "llm.provider": _PROVIDER,
        "llm.invocation_parameters": json.dumps({"temperature": 0}),
        "output.value": answered.answer,
        "llm.token_count.prompt": answered.input_tokens,
        "llm.token_count.completion": answered.output_tokens,
        "llm.token_count.total": answered.input_tokens + answered.output_tokens,
        "llm.cost.prompt": answered.input_tokens * _USD_PER_INPUT_TOKEN,
        "llm.cost.completion": answered.output_tokens * _USD_PER_OUTPUT_TOKEN,
        "llm.cost.total": answered.input_tokens * _USD_PER_INPUT_TOKEN
        + answered.output_tokens * _USD_PER_OUTPUT_TOKEN,
    }
    messages = [("system", answered.system_prompt), *_conversation(answered, caller)]
    for index, (role, content) in enumerate(messages):
        found[f"llm.input_messages.{index}.message.role"] = role
        found[f"llm.input_messages.{index}.message.content"] = content
    found["llm.output_messages.0.message.role"] = "assistant"
    found["llm.output_messages.0.message.content"] = answered.answer
    return found


def _conversation(answered: Answered, caller: Caller) -> list[tuple[str, str]]:
    earlier = [
        message
        for question, answer in caller.history
        for message in (("user", question), ("assistant", answer))
    ]
    return [*earlier, ("user", answered.question)]


# --- OpenTelemetry GenAI -----------------------------------------------------------------


def _genai(tracer: Tracer, answered: Answered, caller: Caller, times: _Times) -> Told:
    ids = {"gen_ai.conversation.id": caller.conversation_id, "user.id": caller.user_id}
    asked = _messages([("user", answered.question)])
    said = _messages([("assistant", answered.answer)], finish_reason="stop")
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": _PROVIDER,
        "gen_ai.agent.name": SERVICE,
        "gen_ai.input.messages": asked,
        "gen_ai.output.messages": said,
        **ids,
    }
    root = _open(tracer, f"invoke_agent {SERVICE}", times.start, agent)
    retrieval = _open(
        tracer,
        f"retrieval {_KNOWLEDGE_BASE}",
        times.start,
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.provider.name": _PROVIDER,
            "gen_ai.data_source.id": _KNOWLEDGE_BASE,
            "gen_ai.retrieval.query.text": answered.query,
            "gen_ai.retrieval.top_k": len(answered.context),
            "gen_ai.retrieval.documents": json.dumps([_document(hit) for hit in answered.context]),
            **ids,
        },
        parent=root,
        kind=SpanKind.CLIENT,
    )
    retrieval.end(times.retrieved)
    response_id = f"resp-{root.get_span_context().span_id:016x}"
    chat = _open(
        tracer,
        f"chat {MODEL}",
        times.reranked,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDER,
            "gen_ai.request.model": MODEL,
            "gen_ai.request.temperature": 0.0,
            "gen_ai.response.model": MODEL,
            "gen_ai.response.id": response_id,
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.response.time_to_first_chunk": (times.first_token - times.reranked) / 1e9,
            "gen_ai.usage.input_tokens": answered.input_tokens,
            "gen_ai.usage.output_tokens": answered.output_tokens,
            "gen_ai.system_instructions": json.dumps(
                [{"type": "text", "content": answered.system_prompt}]
            ),
            "gen_ai.input.messages": _messages(_conversation(answered, caller)),
            "gen_ai.output.messages": said,
            **ids,
        },
        parent=root,
        kind=SpanKind.CLIENT,
    )
    chat.end(times.end)
    root.end(times.end)
    return _told(root, times, response_id)


def _messages(messages: Sequence[tuple[str, str]], finish_reason: str | None = None) -> str:
    ending = {} if finish_reason is None else {"finish_reason": finish_reason}
    return json.dumps(
        [
            {"role": role, "parts": [{"type": "text", "content": content}], **ending}
            for role, content in messages
        ]
    )


def _document(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.page.page_id,
        "score": hit.score,
        "content": hit.page.text,
        **_about(hit),
    }


def _about(hit: Hit) -> dict[str, str]:
    page = hit.page
    return {
        "source": page.url,
        "title": page.title,
        "section": page.section,
        "updated": page.updated,
    }
