"""Whatever is posted, the answer is signals or a clear refusal, never another error."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.errors import MalformedPayload
from collector.model import Signal, SignalKind
from collector.receivers.compression import BodyTooLarge, decompress
from collector.signals import (
    Client,
    ParsedSignals,
    langfuse,
    langsmith,
    parse_signals,
    phoenix,
    signals_in,
)
from tests.fakes.spans import span

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
CLIENT = Client(NOW, {"quality": "1..5"})
IDS = ("signal_id", "trace_id", "response_id", "message_id", "conversation_id", "document_id")
KEYS = (*IDS, "user_id", "value", "scale", "comment", "occurred_at")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
signals = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(KEYS, values),
        "kind": st.sampled_from(get_args(SignalKind)) | values,
        "trace_id": st.just("4bf92f3577b34da6a3ce929d0e0e4736") | values,
        "surprise": values,
    },
)


@given(st.binary(max_size=200))
def test_any_bytes_are_signals_or_malformed(body: bytes) -> None:
    with contextlib.suppress(MalformedPayload):
        parse_signals(body, NOW)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(signals, min_size=1, max_size=4))
def test_any_json_is_signals_or_refused_item_by_item(items: list[dict[str, Any]]) -> None:
    body = json.dumps(items).encode()
    try:
        parsed = parse_signals(body, NOW)
    except MalformedPayload:
        return
    assert len(parsed.signals) + len(parsed.rejected) == len(items)
    assert all(problem.startswith("[") for problem in parsed.rejected)
    for signal in parsed.signals:
        assert signal.sentiment in (-1, 0, 1)
        assert signal.signal_id
        assert signal.occurred_at.tzinfo is not None
    assert parse_signals(body, NOW).signals == parsed.signals


FEEDBACK_KEYS = (
    *("id", "traceId", "observationId", "sessionId", "name", "value", "dataType", "comment"),
    *("metadata", "source", "timestamp", "run_id", "trace_id", "key", "score", "feedback_source"),
    *("feedback_config", "modified_at", "span_id", "session_id", "document_position", "result"),
    *("identifier", "annotator_kind", "note", "forId", "threadId", "chatId", "messageId", "rating"),
    *("message_id", "user", "content", "data", "meta", "type", "body", "batch"),
)
feedback = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(FEEDBACK_KEYS, values),
        "name": st.sampled_from(["thumbs", "stars", "quality"]) | values,
        "key": st.sampled_from(["user_score", "nps"]) | values,
        "traceId": st.just("4bf92f3577b34da6a3ce929d0e0e4736") | values,
        "run_id": st.just("01a22932-a7b0-76aa-ba67-54dc3cc9f09c") | values,
        "span_id": st.just("00f067aa0ba902b7") | values,
        "result": st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("score", "label", "explanation"), values)
        ),
        "data": st.fixed_dictionaries({}, optional=dict.fromkeys(("rating", "comment"), values)),
        "meta": st.fixed_dictionaries({}, optional={"message_id": values, "chat_id": values}),
    },
)
READERS = (
    lambda item: langfuse.parse_scores(json.dumps([item]).encode(), CLIENT),
    lambda item: langfuse.parse_ingestion(
        json.dumps({"batch": [{"type": "score-create", "body": item}, item]}).encode(), CLIENT
    ),
    lambda item: langsmith.parse_feedback(json.dumps(item).encode(), CLIENT),
    lambda item: langsmith.parse_change("f1", json.dumps(item).encode(), CLIENT),
    lambda item: phoenix.parse_annotations(json.dumps({"data": [item]}).encode(), CLIENT),
    lambda item: phoenix.parse_note(json.dumps({"data": item}).encode(), CLIENT),
    lambda item: parse_signals(json.dumps(item).encode(), NOW),
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(feedback, st.sampled_from(READERS))
def test_any_json_of_any_client_is_feedback_or_refused(
    item: dict[str, Any], read: Callable[[Any], ParsedSignals]
) -> None:
    try:
        parsed = read(item)
    except MalformedPayload:
        return
    for signal in parsed.signals:
        assert signal.sentiment in (-1, 0, 1)
        assert signal.signal_id
        assert signal.occurred_at.tzinfo is not None
        # What the journal holds is read back as it was.
        assert msgspec.json.decode(msgspec.json.encode(signal), type=Signal) == signal
    assert read(item).signals == parsed.signals


@given(st.dictionaries(st.sampled_from(["name", "score", "label", "identifier", "x"]), values))
def test_any_annotation_of_a_span_is_feedback_or_left_out(marks: dict[str, Any]) -> None:
    attributes = {f"annotations.0.annotation.{key}": value for key, value in marks.items()}
    for signal in signals_in([span(1, attributes)], [], CLIENT).signals:
        assert msgspec.json.decode(msgspec.json.encode(signal), type=Signal) == signal


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate"]), st.integers(1, 400))
def test_any_bytes_decompress_within_the_bound_or_are_refused(
    body: bytes, encoding: str, limit: int
) -> None:
    with contextlib.suppress(MalformedPayload, BodyTooLarge):
        assert len(decompress(body, encoding, limit)) <= limit
