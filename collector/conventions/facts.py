"""What one span says, in neutral terms: the only thing conventions and extraction share."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Kind = Literal[
    "llm",
    "retriever",
    "reranker",
    "joiner",
    "embedding",
    "tool",
    "agent",
    "chain",
    "evaluation",
    "noise",
    "pending",
]
"""What a span does. `joiner` unites retrieved lists, `evaluation` judges rather than serves,
`noise` is start-up work, `pending` a placeholder for a span still to come."""

Payload = Any
"""Text, JSON text, a decoded value, or a function of no arguments that gives one of these.

Attributes hold most content as JSON text; it is decoded only where it turns out to matter.
"""

Payloads = tuple[Payload, ...]
"""Several places that may hold the same content, the best first: the first with text counts."""


class SpanError(msgspec.Struct, frozen=True):
    """Why a span failed, as far as it says."""

    type: str | None
    message: str | None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one span. None and () mean that the span does not say.

    `conventions` are those the span follows, the one that decides first; `name` is that of the
    step, where it is not the span's; `input` and `output` are the span's own; `input_messages`
    and `output_messages` those of a chat; `documents` what was returned, best first. Token
    counts include cached ones, `cost_usd` is US dollars, `ttft_ms` counts from the start of the
    span.
    """

    conventions: tuple[str, ...]
    kind: Kind | None = None
    name: str | None = None
    input: Payloads = ()
    output: Payloads = ()
    input_messages: Payloads = ()
    output_messages: Payloads = ()
    query: Payloads = ()
    documents: Payloads = ()
    model: str | None = None
    provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    ttft_ms: float | None = None
    conversation_id: Payloads = ()
    user_id: Payloads = ()
    response_id: str | None = None
    error: SpanError | None = None


def merge(first: Facts, second: Facts) -> Facts:
    """Return the facts of `first`, completed by what only `second` knows."""
    values = msgspec.structs.asdict(first)
    for name, more in msgspec.structs.asdict(second).items():
        if more is None or more == ():
            continue
        known = values[name]
        if isinstance(more, tuple):
            values[name] = known + more
        elif known is None:
            values[name] = more
    return Facts(**values)
