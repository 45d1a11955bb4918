"""Feedback of LangSmith clients: `/feedback` and `/feedback/{id}`.

A feedback is unique by its id. LangSmith exports runs to OpenTelemetry under ids made of the
run's: the whole UUID for the trace of a root run, its first half for the span.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from collector.model import Signal
from collector.signals.common import (
    Client,
    Ignored,
    Outcome,
    ParsedSignals,
    Posted,
    Score,
    read_each,
    revocation,
    signal_of,
    user_in,
)
from collector.signals.meaning import scale_of
from collector.signals.values import Comment, Id, Time, Value, finite, items_of, object_of, raw

SOURCE = "langsmith"
_MACHINES = ("model", "auto_eval")


class _Source(Posted):
    type: str | None = None
    user_id: Id = None
    metadata: Any = None


class _Bounds(Posted):
    type: str | None = None
    min: float | None = None
    max: float | None = None


class _Feedback(Posted):
    id: Id = None
    run_id: UUID | None = None
    trace_id: UUID | None = None
    key: str = Field(max_length=500)
    score: Value = None
    value: Any = None
    comment: Comment = None
    feedback_source: _Source | None = None
    feedback_config: _Bounds | None = None
    comparative_experiment_id: Any = None
    created_at: Time = None
    modified_at: Time = None


class _Change(Posted):
    score: Value = None
    value: Any = None
    comment: Comment = None


def parse_feedback(body: bytes, client: Client) -> ParsedSignals:
    """Read the feedback, or the array of feedbacks, of `POST /feedback`.

    Raises:
        MalformedPayload: not JSON of that shape, or no feedback of it can be read.
    """
    return read_each(items_of(body), lambda item: _read(item, client))


def parse_change(feedback_id: str, body: bytes, client: Client) -> ParsedSignals:
    """Read the changed fields of `PATCH /feedback/{id}`, see `collector.signals.completed`.

    Raises:
        MalformedPayload: not JSON of that shape.
    """
    return read_each([object_of(body)], lambda item: _read_change(feedback_id, item, client))


def deletion(feedback_id: str, client: Client) -> ParsedSignals:
    """Return the signal that takes the feedback back (`DELETE /feedback/{id}`)."""
    return ParsedSignals([Outcome(revocation(feedback_id, SOURCE, client))])


def _read(item: Any, client: Client) -> Signal | Ignored:
    body = _Feedback.model_validate(item)
    source = body.feedback_source or _Source()
    metadata = source.metadata if isinstance(source.metadata, dict) else {}
    if body.comparative_experiment_id is not None:
        return Ignored("experiment")
    bounds = body.feedback_config
    return signal_of(
        Score(
            source=SOURCE,
            name=body.key,
            value=body.score,
            label=_label(body.value),
            target=_target(body.run_id, body.trace_id),
            signal_id=body.id,
            comment=body.comment,
            scale=scale_of(bounds.min, bounds.max) if bounds else None,
            # Evaluators name the run in which they judged.
            by_user=False if source.type in _MACHINES or "__run" in metadata else None,
            user_id=source.user_id or user_in(metadata),
            occurred_at=body.modified_at or body.created_at,
            revoked=body.score is body.value is body.comment is None,
        ),
        client,
    )


def _read_change(feedback_id: str, item: Any, client: Client) -> Signal:
    body = _Change.model_validate(item)
    number = finite(body.score)
    label = _label(body.value)
    return Signal(
        signal_id=feedback_id,
        kind="comment" if number is None else "rating",
        occurred_at=client.received_at,
        received_at=client.received_at,
        value=number,
        raw_value=raw(body.score) if body.score is not None else label,
        comment=body.comment,
        source=SOURCE,
        # A field that is not given stays as it is; a score that is null is cleared.
        revoked="score" in body.model_fields_set and body.score is label is body.comment is None,
    )


def _target(run_id: UUID | None, trace_id: UUID | None) -> dict[str, str | None]:
    """Return the ids under which a run can be found: its own are the app's message id."""
    trace = trace_id or run_id
    return {
        "trace_id": trace.hex if trace else None,
        "span_id": run_id.hex[:16] if run_id else None,
        "message_id": str(run_id) if run_id else None,
    }


def _label(value: Any) -> str | None:
    return str(value)[:500] if isinstance(value, str | int | float) else None
