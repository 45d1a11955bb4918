"""Langfuse: `langfuse.observation.*` and `langfuse.trace.*`, of its SDK and of its exports.

Values are JSON text. Counts in `usage_details` exclude each other: `input` leaves cached tokens
out. Source: https://github.com/langfuse/langfuse (packages/shared/src/server/otel).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from collector.conventions.common import from_metadata, present, session_keys, shorten, user_keys
from collector.conventions.facts import Facts, Kind, SpanError
from collector.conventions.numbers import integer, real, text
from collector.conventions.payloads import nested
from collector.model import Attributes, Span

NAME = "langfuse"
FAMILIES = frozenset({"langfuse"})
_KINDS: dict[str, Kind] = {
    "generation": "llm",
    "retriever": "retriever",
    "embedding": "embedding",
    "tool": "tool",
    "agent": "agent",
    "chain": "chain",
    "span": "chain",
    "evaluator": "evaluation",
    "guardrail": "chain",
}
_SESSION_KEYS = (
    "langfuse.session.id",
    "session.id",
    *session_keys("langfuse.observation.metadata."),
    *session_keys("langfuse.trace.metadata."),
)
_USER_KEYS = ("langfuse.user.id", "user.id", *user_keys("langfuse.observation.metadata."))
_RERANK_NAME = re.compile(r"re-?rank", re.IGNORECASE)


def read(span: Span) -> Facts | None:
    """Return the facts of a span with `langfuse.*` attributes, None of any other."""
    attributes = span.attributes
    kind = _kind(span)
    if kind is None and not any(key.startswith("langfuse.") for key in attributes):
        return None
    usage = nested(attributes.get("langfuse.observation.usage_details"))
    usage = usage if isinstance(usage, Mapping) else {}
    level_error = str(attributes.get("langfuse.observation.level", "")).upper() == "ERROR"
    is_call = kind == "llm"
    given = present(attributes, "langfuse.observation.input")
    returned = present(attributes, "langfuse.observation.output")
    sessions, users = from_metadata(attributes, "langfuse.observation.metadata")
    message = text(attributes.get("langfuse.observation.status_message"))
    return Facts(
        conventions=(NAME,),
        kind=kind,
        input=given if is_call else present(attributes, "langfuse.trace.input") + given,
        output=returned if is_call else present(attributes, "langfuse.trace.output") + returned,
        input_messages=given if is_call else (),
        output_messages=returned if is_call else (),
        query=given,
        documents=returned if kind in ("retriever", "reranker", "tool") else (),
        model=text(attributes.get("langfuse.observation.model.name")) if is_call else None,
        input_tokens=_tokens(usage, _INPUT, _OUTPUT) if is_call else None,
        output_tokens=_tokens(usage, _OUTPUT, _INPUT) if is_call else None,
        cached_tokens=_cached(usage) if is_call else None,
        cost_usd=_cost(attributes) if is_call else None,
        ttft_ms=_ttft(span),
        conversation_id=(
            *present(attributes, *_SESSION_KEYS),
            *sessions,
        ),
        user_id=(
            *present(attributes, *_USER_KEYS),
            *users,
        ),
        error=SpanError(None, shorten(message)) if level_error else None,
    )


_INPUT = ("input", "prompt", "cache", "prompt_details")
_OUTPUT = ("output", "completion", "reasoning", "completion_details")


def _kind(span: Span) -> Kind | None:
    attributes = span.attributes
    named = attributes.get("langfuse.observation.type")
    if not isinstance(named, str) or not named:
        return "llm" if "langfuse.observation.model.name" in attributes else None
    kind = _KINDS.get(named.lower())
    if kind in ("chain", "retriever") and _RERANK_NAME.search(span.name):
        return "reranker"
    return kind


def _tokens(usage: Mapping[str, Any], own: tuple[str, ...], other: tuple[str, ...]) -> int | None:
    """Return the sum of the exclusive counts of one side, checked against the total.

    Some senders give inclusive counts; then the plain count alone makes up the total.
    """
    plain, extra = _side(usage, own)
    if plain is None:
        return extra or None
    other_plain, other_extra = _side(usage, other)
    whole = integer(usage.get("total"))
    if whole is not None and extra and whole == plain + (other_plain or 0):
        return plain
    if whole is not None and extra and whole == plain + (other_plain or 0) + other_extra:
        return plain
    return plain + extra


def _side(usage: Mapping[str, Any], names: tuple[str, ...]) -> tuple[int | None, int]:
    plain: int | None = None
    extra = 0
    for key, value in usage.items():
        count = integer(value)
        if count is None or not key.startswith(names):
            continue
        if key in ("input", "output", *(f"{name}_tokens" for name in names)):
            plain = count if plain is None else plain
        else:
            extra += count
    return plain, extra


def _cached(usage: Mapping[str, Any]) -> int | None:
    counts = [integer(v) for k, v in usage.items() if "cache" in k and "creation" not in k]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _cost(attributes: Attributes) -> float | None:
    """Return the total cost, or the sum of its parts where no total is given."""
    costs = nested(attributes.get("langfuse.observation.cost_details"))
    if not isinstance(costs, Mapping):
        return None
    whole = real(costs.get("total"))
    if whole is not None:
        return whole
    parts = [part for value in costs.values() if (part := real(value)) is not None]
    return sum(parts) if parts else None


def _ttft(span: Span) -> float | None:
    started = nested(span.attributes.get("langfuse.observation.completion_start_time"))
    if not isinstance(started, str) or not span.start_ns:
        return None
    try:
        moment = datetime.fromisoformat(started.strip('"').replace("Z", "+00:00"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return max(0.0, moment.timestamp() * 1000 - span.start_ns / 1e6)
