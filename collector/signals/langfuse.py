"""Scores of Langfuse clients: `/api/public/scores`, and the older `/api/public/ingestion`.

A score is unique by its id and is updated by sending it again. Bodies: Langfuse API reference
and its Python SDK 5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import Field

from collector.errors import MalformedPayload
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
from collector.signals.values import Comment, Id, Time, Value, bounded, hex_id, items_of, object_of

SOURCE = "langfuse"
_EVENTS_ONLY = (
    "only score-create is taken here; send traces as OpenTelemetry, as Langfuse SDKs of version 3 "
    "and later do"
)


class _Score(Posted):
    id: Id = None
    trace_id: Id = Field(None, alias="traceId")
    observation_id: Id = Field(None, alias="observationId")
    session_id: Id = Field(None, alias="sessionId")
    dataset_run_id: Id = Field(None, alias="datasetRunId")
    name: str = Field(max_length=500)
    value: Value = None
    data_type: str | None = Field(None, alias="dataType")
    comment: Comment = None
    metadata: Any = None
    environment: str | None = None
    source: str | None = None
    timestamp: Time = None


class _Event(Posted):
    id: Id = None
    type: str
    timestamp: Time = None
    body: Any = None


def parse_scores(body: bytes, client: Client) -> ParsedSignals:
    """Read the score, or the array of scores, of `POST /api/public/scores`.

    Raises:
        MalformedPayload: not JSON of that shape, or no score of it can be read.
    """
    return read_each(items_of(body), lambda item: _read(item, client, None))


def parse_ingestion(body: bytes, client: Client) -> ParsedSignals:
    """Read the `score-create` events of `POST /api/public/ingestion`.

    Each outcome carries the id of its event.

    Raises:
        MalformedPayload: not JSON of that shape, or no event of it can be read.
    """
    batch = object_of(body).get("batch")
    if not isinstance(batch, list):
        raise MalformedPayload("batch: missing; send an array of events")
    refs = [str(e.get("id", ""))[:500] if isinstance(e, dict) else "" for e in bounded(batch)]
    return read_each(batch, lambda event: _read_event(event, client), refs)


def deletion(score_id: str, client: Client) -> ParsedSignals:
    """Return the signal that takes the score back (`DELETE /api/public/scores/{id}`)."""
    return ParsedSignals([Outcome(revocation(score_id, SOURCE, client))])


def _read_event(item: Any, client: Client) -> Signal | Ignored:
    event = _Event.model_validate(item)
    if event.type == "sdk-log":
        return Ignored("machine")
    if event.type != "score-create":
        raise ValueError(f"type: {_EVENTS_ONLY}")
    return _read(event.body, client, event)


def _read(item: Any, client: Client, event: _Event | None) -> Signal | Ignored:
    score = _Score.model_validate(item)
    if score.dataset_run_id is not None:
        return Ignored("experiment")
    occurred_at = score.timestamp or (event.timestamp if event else None)
    value = score.value
    revoked = value is None and "value" in score.model_fields_set and score.id is not None
    if value is None and not revoked:
        raise ValueError("value: missing; give a number, or a text for categories and comments")
    # A score without an id is kept: the event it came in, or its content, makes it unique.
    return signal_of(
        Score(
            source=SOURCE,
            name=score.name,
            value=_typed(value, score.data_type),
            target=_target(score)._asdict(),
            signal_id=score.id or (event.id if event else None),
            comment=score.comment,
            by_user=_by_user(score),
            user_id=user_in(score.metadata),
            occurred_at=occurred_at,
            revoked=revoked,
        ),
        client,
    )


class _Target(NamedTuple):
    trace_id: str | None
    span_id: str | None
    message_id: str | None
    conversation_id: str | None


def _target(score: _Score) -> _Target:
    """Return what a score is about. An id that OpenTelemetry does not have is the app's own."""
    trace_id = None if score.trace_id is None else hex_id(score.trace_id)
    span_id = None if score.observation_id is None else hex_id(score.observation_id, span=True)
    own = score.trace_id if trace_id is None else None
    if trace_id is None and span_id is None:
        own = own or score.observation_id
    return _Target(trace_id, span_id, own, score.session_id)


def _by_user(score: _Score) -> bool | None:
    """Evaluators of Langfuse itself say so; of what came by API only the name tells."""
    if score.source in ("EVAL", "ANNOTATION"):
        return False
    if score.environment is not None and score.environment.startswith("langfuse"):
        return False
    return None


def _typed(value: Any, data_type: str | None) -> Any:
    if data_type == "BOOLEAN" and isinstance(value, int | float):
        return bool(value)
    return value
