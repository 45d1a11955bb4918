"""The signals of `POST /v1/signals`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from collector.model import Signal, SignalKind
from collector.signals import apps
from collector.signals.common import Client, Outcome, ParsedSignals, usable
from collector.signals.meaning import Scale, rating, sentiment_of
from collector.signals.values import (
    Comment,
    Id,
    SpanId,
    Time,
    TraceId,
    Value,
    digest,
    finite,
    items_of,
    plausible,
    problems,
    raw,
)

TARGETS = ("span_id", "trace_id", "response_id", "message_id", "conversation_id")
"""Fields that say what a signal is about, the most specific first."""

_SPECIAL = {
    "kind": f"must be one of {', '.join(get_args(SignalKind))}",
    "value": "must be a number, true, false, a text or null",
}
_THUMBS = ("thumbs_up", "thumbs_down")


def parse_signals(body: bytes, received_at: datetime) -> ParsedSignals:
    """Read the JSON object or array of `POST /v1/signals`.

    A signal that cannot be read is left out with a sentence that names its index, the field and
    the cure; the others are kept.

    Args:
        body: the decompressed body.
        received_at: when it came, UTC; the time of signals that give none.

    Raises:
        MalformedPayload: not JSON of that shape, or no signal of it can be read.
    """
    client = Client(received_at)
    outcomes = []
    for index, item in enumerate(items_of(body)):
        try:
            read = apps.reader_of(item)
            outcomes.append(Outcome(read(item, client) if read else _signal(item, received_at)))
        except ValidationError as err:
            found = err.errors(include_input=False, include_url=False)
            outcomes.append(Outcome(f"[{index}] {problems(found, _Body.model_fields, _SPECIAL)}"))
        except ValueError as err:
            outcomes.append(Outcome(f"[{index}] {err}"))
    return usable(ParsedSignals(outcomes))


class _Body(BaseModel):
    """One posted signal, field by field. `value` tells an explicit null from an absent one."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    signal_id: Id = None
    trace_id: TraceId = None
    span_id: SpanId = None
    response_id: Id = None
    message_id: Id = None
    conversation_id: Id = None
    kind: SignalKind
    value: Value = None
    scale: Scale | None = None
    comment: Comment = None
    document_id: Id = None
    user_id: Id = None
    occurred_at: Time = None

    @model_validator(mode="after")
    def _is_about_something(self) -> _Body:
        if self.target is None:
            raise ValueError(
                "trace_id: missing; or give span_id, response_id, message_id, conversation_id"
            )
        return self

    @property
    def target(self) -> tuple[str, str] | None:
        """Field name and value of the most specific id."""
        for name in TARGETS:
            if (value := getattr(self, name)) is not None:
                return name, value
        return None

    @property
    def revoked(self) -> bool:
        """Whether an earlier signal is taken back: `value` is there, and null."""
        return "value" in self.model_fields_set and self.value is None


def _signal(item: Any, received_at: datetime) -> Signal:
    """Return the signal.

    Raises:
        ValueError: what is wrong with it, starting with the field.
    """
    body = _Body.model_validate(item)
    occurred_at = plausible(body.occurred_at, received_at, "occurred_at")
    if body.revoked and body.signal_id is None and body.user_id is None:
        raise ValueError("value: null takes a signal back; say which by signal_id or user_id")
    if body.kind == "comment" and not body.comment and not body.revoked:
        raise ValueError("comment: missing; a comment needs its text")
    value = _number(body)
    scale: str | None = body.scale
    if body.kind == "rating" and value is not None:
        _, scale = rating(value, body.scale)
    return Signal(
        signal_id=body.signal_id or _derived_id(body),
        kind=body.kind,
        occurred_at=occurred_at,
        received_at=received_at,
        trace_id=body.trace_id,
        span_id=body.span_id,
        response_id=body.response_id,
        message_id=body.message_id,
        conversation_id=body.conversation_id,
        value=value,
        raw_value=raw(body.value),
        scale=scale,
        sentiment=0 if body.revoked else sentiment_of(body.kind, value, body.scale),
        comment=body.comment,
        document_id=body.document_id,
        user_id=body.user_id,
        revoked=body.revoked,
    )


def _number(body: _Body) -> float | None:
    """Return the value as a number; None where there is none, or it is a word."""
    if body.value is None:
        if body.kind == "rating" and not body.revoked:
            raise ValueError("value: missing; a rating needs a number")
        return None
    number = finite(body.value)
    if number is None and body.kind in ("rating", *_THUMBS):
        raise ValueError(f"value: must be a finite number for {body.kind}")
    return number


def _derived_id(body: _Body) -> str:
    """Return the id of a signal that was sent without one, the same for the same signal.

    A user has one signal of a kind on a target (or a document of it): a later one replaces it,
    and up and down are the same thumb. Unknown users cannot be told apart, so all of the content
    counts: a body sent again is the same signal, one that differs in anything is another user's.
    """
    if body.user_id is None:
        return digest(body.model_dump(mode="json"))
    kind = "thumb" if body.kind in _THUMBS else body.kind
    return digest([body.target, body.document_id, kind, body.user_id])
