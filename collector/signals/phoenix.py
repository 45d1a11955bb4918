"""Annotations of Phoenix clients: `/v1/{span,trace,session,document}_annotations` and `_notes`.

An annotation is unique by its name, its target and its `identifier`. Only those of people are
signals. Bodies: Phoenix REST API and its Python client 3.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from collector.errors import MalformedPayload
from collector.model import Signal
from collector.signals.common import (
    Client,
    Ignored,
    ParsedSignals,
    Posted,
    Score,
    read_each,
    signal_of,
    user_in,
)
from collector.signals.values import Comment, Id, SpanId, TraceId, Value, bounded, object_of

SOURCE = "phoenix"


class _Result(Posted):
    label: Id = None
    score: Value = None
    explanation: Comment = None


class _Annotation(Posted):
    name: str = Field(max_length=500)
    annotator_kind: str = "HUMAN"
    span_id: SpanId = None
    trace_id: TraceId = None
    session_id: Id = None
    document_position: int | None = Field(None, ge=0, le=10_000)
    result: _Result | None = None
    metadata: Any = None
    identifier: Id = None


class _Note(Posted):
    span_id: SpanId = None
    trace_id: TraceId = None
    session_id: Id = None
    note: Comment


def parse_annotations(body: bytes, client: Client) -> ParsedSignals:
    """Read the annotations of a body `{"data": [...]}`.

    Raises:
        MalformedPayload: not JSON of that shape, or no annotation of it can be read.
    """
    data = object_of(body).get("data")
    if not isinstance(data, list):
        raise MalformedPayload("data: missing; send an array of annotations")
    return read_each(bounded(data), lambda item: _read(item, client))


def parse_note(body: bytes, client: Client) -> ParsedSignals:
    """Read the note of a body `{"data": {...}}`. Every note is one of its own.

    Raises:
        MalformedPayload: not JSON of that shape.
    """
    return read_each([object_of(body).get("data")], lambda item: _read_note(item, client))


def _read(item: Any, client: Client) -> Signal | Ignored:
    body = _Annotation.model_validate(item)
    result = body.result or _Result()
    target = _target(body)
    return signal_of(
        Score(
            source=SOURCE,
            name=body.name,
            value=result.score,
            label=result.label,
            target=target,
            identity=[body.name, sorted(_given(target)), body.document_position, body.identifier],
            comment=result.explanation,
            by_user=body.annotator_kind == "HUMAN",
            user_id=user_in(body.metadata) or body.identifier,
            # As in the record, documents are counted from one.
            document_id=_document(body.document_position),
            revoked=result == _Result(),
        ),
        client,
    )


def _read_note(item: Any, client: Client) -> Signal | Ignored:
    body = _Note.model_validate(item)
    target = _target(body)
    return signal_of(
        Score(
            source=SOURCE,
            name="note",
            value=None,
            target=target,
            identity=["note", sorted(_given(target)), body.note],
            comment=body.note,
            by_user=True,
        ),
        client,
    )


def _target(body: _Annotation | _Note) -> dict[str, str | None]:
    return {
        "span_id": body.span_id,
        "trace_id": body.trace_id,
        "conversation_id": body.session_id,
    }


def _given(target: dict[str, str | None]) -> list[tuple[str, str]]:
    return [(key, value) for key, value in target.items() if value is not None]


def _document(position: int | None) -> str | None:
    return None if position is None else f"rank:{position + 1}"
