"""Putting the record of one request together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from collector.citations import citations_in
from collector.conventions.common import SESSION_KEYS, USER_KEYS
from collector.conventions.facts import Facts
from collector.conventions.numbers import text
from collector.conventions.payloads import Decoder
from collector.extract.content import Content, without_template
from collector.extract.context import Context
from collector.extract.totals import first_of, request_error, stages_of, total
from collector.extract.tree import Node, Tree
from collector.model import Document, Flag, RagRequest, Trace

_REMOTE_KINDS = (2, 5)
"""Span kinds SERVER and CONSUMER, whose parent is a span of the caller."""

_T = TypeVar("_T")
_MAX_COUNT = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record_of(
    trace: Trace,
    tree: Tree,
    calls: list[Node],
    context: Context,
    content: Content,
    decoder: Decoder,
    message_id_attribute: str | None,
) -> RagRequest:
    """Return the record of a trace that is a request; see `collector.extract`.

    Args:
        trace: the trace.
        tree: its spans.
        calls: its LLM calls.
        context: its searches and documents.
        content: its question and answer.
        decoder: decodes payloads, and knows by now whether one was cut off.
        message_id_attribute: name of the attribute with the app's own message id, if any.
    """
    root, near = tree.root(), tree.near
    stages = stages_of(tree, calls, context, decoder)
    question = content.question
    if question is not None:
        queries = [stage.query for stage in stages if stage.query is not None]
        question = without_template(question, context.documents, queries)
    error = request_error(tree, root, content.answer)
    citations = citations_in(content.answer) if content.answer else []
    answering = [*([content.final] if content.final else []), *reversed(calls), *near]
    metered = _metered(calls, near)
    return RagRequest(
        trace_id=trace.trace_id,
        service=text(root.span.resource.get("service.name")),
        conventions=_conventions(tree),
        started_at=_utc(root.start_ns),
        latency_ms=_latency_ms(root, content.final),
        ttft_ms=_first(answering[:1], lambda f: f.ttft_ms),
        conversation_id=first_of(near, lambda f: f.conversation_id, SESSION_KEYS),
        user_id=first_of(near, lambda f: f.user_id, USER_KEYS),
        question=question,
        answer=content.answer,
        documents=_marked(context.documents, citations),
        stages=stages,
        retriever_stages=len(context.retrievers),
        reranker_stages=len(context.rerankers),
        llm_calls=len(calls),
        citations=citations,
        model=_first(answering, lambda f: f.model if f.kind in ("llm", "agent") else None),
        provider=_first(answering, lambda f: f.provider if f.kind == "llm" else None),
        input_tokens=_count(total(metered, lambda f: f.input_tokens)),
        output_tokens=_count(total(metered, lambda f: f.output_tokens)),
        cached_tokens=_count(total(metered, lambda f: f.cached_tokens)),
        cost_usd=total(metered, lambda f: f.cost_usd),
        status="ok" if error is None else "error",
        error=error,
        flags=_flags(trace, root, tree, context, content, decoder, failed=error is not None),
        response_ids=_distinct(tree.nodes, lambda f: f.response_id),
        message_id=_attribute(near, message_id_attribute),
    )


def _conventions(tree: Tree) -> list[str]:
    """Return all conventions found, those that decided what a span is before the others."""
    told = (node for node in tree.nodes if node.kind not in (None, "pending", "noise"))
    found = [node.facts.conventions for node in told if node.facts]
    deciding = [names[0] for names in found]
    return list(dict.fromkeys([*deciding, *(name for names in found for name in names)]))


def _metered(calls: list[Node], near: list[Node]) -> list[Node]:
    """Return the spans to count tokens on: the calls, or an agent that alone knows the sum."""
    if total(calls, lambda f: f.input_tokens) is not None:
        return calls
    agents = [n for n in near if n.facts and n.facts.input_tokens is not None]
    return [n for n in agents if n.kind in ("agent", "chain")][:1] or calls


def _flags(
    trace: Trace,
    root: Node,
    tree: Tree,
    context: Context,
    content: Content,
    decoder: Decoder,
    *,
    failed: bool,
) -> list[Flag]:
    searched = bool(context.retrievers or context.rerankers or context.documents)
    unanswered = content.answer is None and not content.tool_call_answer
    cut_short = trace.closed_by in ("evicted", "shutdown") or trace.spans_dropped > 0
    flags: dict[Flag, bool] = {
        "content_missing": not failed and (content.question is None or unanswered),
        "truncated": decoder.truncated,
        "attributes_dropped": any(n.kind and n.span.dropped_attributes for n in tree.nodes),
        "no_retrieval": not searched,
        "empty_retrieval": context.known_empty,
        "tool_call_answer": content.tool_call_answer,
        "partial": cut_short or _lost_its_parent(root),
    }
    return [flag for flag, raised in flags.items() if raised]


def _lost_its_parent(root: Node) -> bool:
    """Tell whether the root has a parent that never came; one in another service need not."""
    return root.span.parent_span_id is not None and root.span.kind not in _REMOTE_KINDS


def _marked(documents: list[Document], citations: list[int]) -> list[Document]:
    """Say of each document whether the answer cites it; nothing where it cites none at all."""
    if not citations:
        return documents
    return [msgspec.structs.replace(d, cited=d.rank in citations) for d in documents]


def _latency_ms(root: Node, final: Node | None) -> float | None:
    """Return the time to the end of the answer.

    A root that ended before the answer of its own process began to come only handed a stream out.
    """
    latency = root.latency_ms
    if latency is None or final is None or final.latency_ms is None:
        return latency
    if final.span.resource != root.span.resource:
        return latency
    first_token_ms = final.facts.ttft_ms if final.facts else None
    began_ns = final.start_ns + (first_token_ms or 0) * 1e6
    if began_ns <= root.end_ns:
        return latency
    return (max(began_ns, final.end_ns) - root.start_ns) / 1e6


def _utc(time_ns: int) -> datetime | None:
    return _EPOCH + timedelta(microseconds=time_ns // 1000) if time_ns else None


def _count(value: float | None) -> int | None:
    """Return a sum of counts; one that no real call can reach is not known."""
    return None if value is None or value > _MAX_COUNT else int(value)


def _first(nodes: Iterable[Node], value: Callable[[Facts], _T | None]) -> _T | None:
    return next((v for node in nodes if node.facts and (v := value(node.facts)) is not None), None)


def _distinct(nodes: Iterable[Node], value: Callable[[Facts], str | None]) -> list[str]:
    values = (value(node.facts) for node in nodes if node.facts)
    return list(dict.fromkeys(v for v in values if v))


def _attribute(nodes: Iterable[Node], name: str | None) -> str | None:
    if name is None:
        return None
    found = (text(node.span.attributes.get(name)) for node in nodes)
    return next((value for value in found if value is not None), None)
