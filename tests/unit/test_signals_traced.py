"""Feedback that travels as telemetry: events of OpenTelemetry, annotations of OpenInference."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collector import otlp
from collector.model import LogRecord, Signal
from collector.signals import (
    Client,
    ParsedSignals,
    is_evaluation,
    may_hold_signals,
    signals_in,
)
from tests.fakes.spans import START_NS, TRACE_ID, span, span_id

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
CLIENT = Client(NOW)
RECORDED = Path(__file__).parents[1] / "data" / "feedback" / "otel-evaluation-result.logs.json"


def event(name: str | None = "user_feedback", **fields: Any) -> LogRecord:
    attributes = {
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.value": 0,
        **fields.pop("attributes", {}),
    }
    plain: dict[str, Any] = {
        "trace_id": TRACE_ID,
        "span_id": span_id(1),
        "time_ns": START_NS,
        "event_name": "gen_ai.evaluation.result",
        "attributes": attributes,
    }
    return LogRecord(**(plain | fields))


def in_logs(*records: LogRecord, client: Client = CLIENT) -> ParsedSignals:
    return signals_in([], list(records), client)


def annotated(**fields: Any) -> ParsedSignals:
    marks = {"name": "user feedback", "annotator_kind": "HUMAN", "score": 0} | fields
    attributes = {
        f"annotations.0.annotation.{key}": value
        for key, value in marks.items()
        if value is not None
    }
    return signals_in([span(1, attributes)], [], CLIENT)


def only(parsed: ParsedSignals) -> Signal:
    assert parsed.ignored == []
    (signal,) = parsed.signals
    return signal


def test_an_evaluation_event_of_a_user_is_a_signal_on_its_span() -> None:
    signal = only(in_logs(event(attributes={"gen_ai.evaluation.explanation": "old price"})))
    assert (signal.kind, signal.sentiment) == ("thumbs_down", -1)
    assert (signal.trace_id, signal.span_id) == (TRACE_ID, span_id(1))
    assert signal.comment == "old price"
    assert signal.source == "otel"
    assert signal.occurred_at == datetime.fromtimestamp(START_NS / 1e9, UTC)


def test_an_evaluation_event_without_a_span_has_its_response_as_target() -> None:
    record = event(trace_id=None, span_id=None, attributes={"gen_ai.response.id": "chatcmpl-1"})
    assert only(in_logs(record)).response_id == "chatcmpl-1"


def test_a_recorded_event_of_an_evaluator_is_left_out_and_counted() -> None:
    body = RECORDED.read_bytes()
    telemetry = otlp.decode_logs(body, "application/json")
    assert may_hold_signals(body)
    assert in_logs(*telemetry.logs).ignored == ["unnamed"]
    named = Client(NOW, {"Relevance": "0..1"})
    signal = only(in_logs(*telemetry.logs, client=named))
    assert (signal.kind, signal.value, signal.sentiment) == ("rating", 0.9, 1)
    assert signal.response_id == "chatcmpl-1"


def test_an_event_about_nothing_is_left_out() -> None:
    assert in_logs(event(trace_id=None, span_id=None)).ignored == ["no_target"]


def test_other_log_records_are_none_of_ours() -> None:
    record = event(event_name="gen_ai.user.message")
    assert in_logs(record).outcomes == []
    assert not is_evaluation(record)
    assert in_logs(event(name=None)).outcomes == []


def test_a_users_events_on_one_span_replace_each_other() -> None:
    user = {"user.id": "u1"}
    down = only(in_logs(event(attributes=user)))
    up = only(in_logs(event(attributes=user | {"gen_ai.evaluation.score.value": 1})))
    other = only(in_logs(event(attributes={"user.id": "u2"})))
    assert down.signal_id == up.signal_id != other.signal_id


def test_a_persons_annotation_on_a_span_is_a_signal_on_it() -> None:
    signal = only(annotated(label="thumbs-down", explanation="old price", identifier="u-7"))
    assert (signal.kind, signal.comment, signal.user_id) == ("thumbs_down", "old price", "u-7")
    assert (signal.trace_id, signal.span_id) == (TRACE_ID, span_id(1))
    assert signal.source == "openinference"


@pytest.mark.parametrize("kind", ["LLM", "CODE", "my-rules"])
def test_annotations_of_machines_are_left_out_and_counted(kind: str) -> None:
    assert annotated(annotator_kind=kind).ignored == ["machine"]


def test_without_an_annotator_the_name_decides() -> None:
    assert only(annotated(annotator_kind=None)).kind == "thumbs_down"
    assert annotated(annotator_kind=None, name="hallucination").ignored == ["unnamed"]


def test_several_annotations_of_a_span_are_several_signals() -> None:
    attributes = {
        "annotations.0.annotation.name": "thumbs",
        "annotations.0.annotation.score": 1,
        "annotations.1.annotation.name": "feedback",
        "annotations.1.annotation.explanation": "which page?",
        "annotations.999999.annotation.name": "thumbs",
    }
    parsed = signals_in([span(1, attributes)], [], CLIENT)
    assert [signal.kind for signal in parsed.signals] == ["thumbs_up", "comment"]


def test_a_span_sent_again_says_the_same() -> None:
    assert only(annotated()).signal_id == only(annotated()).signal_id


def test_odd_values_are_left_out_and_no_error() -> None:
    assert annotated(score=85.0).signals == []
    assert annotated(name=7).outcomes == []
    assert annotated(score=float("nan"), label=None).signals == []
    assert only(annotated(score=[1], label="thumbs-up")).kind == "thumbs_up"
    assert in_logs(event(time_ns=2**63)).signals == []


def test_most_bodies_need_no_look() -> None:
    assert not may_hold_signals(b"gen_ai.user.message llm.input_messages")
