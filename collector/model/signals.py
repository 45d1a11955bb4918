"""What users say and do about answers, sent or inferred."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from collector.model.value import Value

SignalKind = Literal[
    "thumbs_up",
    "thumbs_down",
    "rating",
    "copy",
    "citation_click",
    "rephrase",
    "comment",
    "regenerate",
    "abandon",
    "push_back",
    "repeated_clicks",
]


class Signal(Value, frozen=True):
    """One user signal. `signal_id` is always set, and with it at least one of the five target ids.

    `value` is the number on the sender's own scale, `raw_value` what was sent and `scale` the
    scale of a rating, as given or as read; `name` is what the sender calls the score. `revoked`
    takes an earlier signal with the same id back: only then no target is needed, or where a signal
    changes an earlier one. `sentiment` is -1, 0 or 1. `confidence` in [0, 1] and
    `reason`, in words, are set where the signal was not sent but inferred (`source` `inferred`).
    """

    signal_id: str
    kind: SignalKind
    occurred_at: datetime
    received_at: datetime
    trace_id: str | None = None
    response_id: str | None = None
    message_id: str | None = None
    conversation_id: str | None = None
    value: float | None = None
    raw_value: str | None = None
    sentiment: int = 0
    comment: str | None = None
    document_id: str | None = None
    user_id: str | None = None
    source: str = "signals"
    revoked: bool = False
    confidence: float | None = None
    reason: str | None = None
    span_id: str | None = None
    name: str | None = None
    scale: str | None = None


INFERRED = "inferred"
"""The `source` of signals that nobody sent: we saw them in what users did next."""


class Turn(Value, frozen=True):
    """One request as a turn of its conversation, with what its user did about it.

    `at` is when it started, fixed by its first version; `clicked` counts the documents of the
    answer that were opened. Texts may be cut.
    """

    trace_id: str
    at: datetime
    question: str | None = None
    answer: str | None = None
    latency_ms: float | None = None
    clicked: int = 0


class Inferred(Value, frozen=True):
    """A signal seen in what users did next: on which turn, how sure (in [0, 1]) and why."""

    trace_id: str
    kind: SignalKind
    confidence: float
    reason: str
