"""Feedback that travels as telemetry, in OpenTelemetry's own words and in OpenInference's.

A `gen_ai.evaluation.result` log record is about the span it was emitted in, or about the
response it names (OpenTelemetry semantic conventions for generative AI). OpenInference spans
carry `annotations.<n>.annotation.*` about themselves, with the kind of annotator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from collector.model import LogRecord, Span
from collector.signals.common import Client, Outcome, ParsedSignals, Score, signal_of
from collector.signals.values import finite

EVALUATION = "gen_ai.evaluation.result"
_ANNOTATION = re.compile(r"annotations\.(\d{1,3})\.annotation\.(\w+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TEXT = 20_000
_MAX_ID = 500


def signals_in(spans: list[Span], logs: list[LogRecord], client: Client) -> ParsedSignals:
    """Return the feedback that telemetry carries, and why other scores in it are none."""
    outcomes = [_outcome(score, client) for record in logs for score in _evaluations(record)]
    for span in spans:
        outcomes += [_outcome(score, client) for score in _annotations(span)]
    return ParsedSignals(outcomes)


def may_hold_signals(body: bytes) -> bool:
    """Tell whether an encoded body can hold feedback: quick, and wrong to one side only."""
    return EVALUATION.encode() in body or b"annotations." in body


def is_evaluation(record: LogRecord) -> bool:
    """Tell whether a log record is a score, and no part of its trace."""
    return record.event_name == EVALUATION


def _outcome(score: Score, client: Client) -> Outcome:
    try:
        return Outcome(signal_of(score, client))
    except ValueError as err:
        return Outcome(str(err))


def _evaluations(record: LogRecord) -> Iterator[Score]:
    if not is_evaluation(record):
        return
    attributes = record.attributes
    name = _text(attributes.get("gen_ai.evaluation.name"), _MAX_ID)
    if name is None:
        return
    target = {
        "trace_id": record.trace_id,
        "span_id": record.span_id,
        "response_id": _text(attributes.get("gen_ai.response.id"), _MAX_ID),
    }
    user_id = _text(attributes.get("user.id") or attributes.get("enduser.id"), _MAX_ID)
    yield Score(
        source="otel",
        name=name,
        value=_number(attributes.get("gen_ai.evaluation.score.value")),
        label=_text(attributes.get("gen_ai.evaluation.score.label"), _MAX_ID),
        comment=_text(attributes.get("gen_ai.evaluation.explanation"), _MAX_TEXT),
        target=target,
        identity=[sorted(_given(target)), name, user_id] if user_id else None,
        user_id=user_id,
        occurred_at=_time(record.time_ns),
    )


def _annotations(span: Span) -> Iterator[Score]:
    found: dict[str, dict[str, Any]] = {}
    for key, value in span.attributes.items():
        if key.startswith("annotations.") and (match := _ANNOTATION.fullmatch(key)):
            found.setdefault(match[1], {})[match[2]] = value
    for fields in found.values():
        name = _text(fields.get("name"), _MAX_ID)
        if name is None:
            continue
        kind = _text(fields.get("annotator_kind"), _MAX_ID)
        identifier = _text(fields.get("identifier"), _MAX_ID)
        yield Score(
            source="openinference",
            name=name,
            value=_number(fields.get("score")),
            label=_text(fields.get("label"), _MAX_ID),
            comment=_text(fields.get("explanation"), _MAX_TEXT),
            target={"trace_id": span.trace_id, "span_id": span.span_id},
            identity=[span.trace_id, span.span_id, name, identifier] if identifier else None,
            by_user=None if kind is None else kind == "HUMAN",
            user_id=identifier,
            occurred_at=_time(span.end_ns or span.start_ns),
        )


def _text(value: Any, limit: int) -> str | None:
    return value[:limit] if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    return finite(value) if isinstance(value, bool | int | float | str) else None


def _time(time_ns: int | None) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=time_ns // 1000) if time_ns else None
    except OverflowError:
        return None


def _given(target: dict[str, str | None]) -> list[tuple[str, str]]:
    return [(key, value) for key, value in target.items() if value is not None]
