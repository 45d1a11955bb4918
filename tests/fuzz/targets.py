"""What is fuzzed: functions of bytes that raise nothing but what a caller is told to expect.

Each target takes any bytes, swallows the refusals that its subject promises, and checks what must
hold of the result. Whatever else is raised is a finding.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from collector import otlp
from collector.errors import MalformedPayload
from collector.extract import extract
from collector.model import LogRecord, RagRequest, Span, Telemetry, Trace
from collector.receivers.feedback import call_of
from collector.signals import Client, parse_signals, signals_in
from collector.trace_files import bodies, read

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

CLIENT = Client(NOW)
FEEDBACK_ID = "7f6b8f0e-6c0d-4c55-9c62-6a4c8f6a9f11"
FEEDBACK_CALLS = (
    ("POST", "/api/public/scores"),
    ("POST", "/api/public/ingestion"),
    ("POST", "/feedback"),
    ("PATCH", f"/feedback/{FEEDBACK_ID}"),
    ("POST", "/v1/span_annotations"),
    ("POST", "/v1/span_notes"),
)

Target = Callable[[bytes], None]


def traces(data: bytes) -> None:
    """A trace body at the door and in the pipeline: both read the same of it."""
    for content_type in (PROTOBUF, JSON):
        _same_at_the_door(otlp.canonical_traces, otlp.decode_traces, data, content_type)


def logs(data: bytes) -> None:
    """A logs body at the door and in the pipeline."""
    for content_type in (PROTOBUF, JSON):
        _same_at_the_door(otlp.canonical_logs, otlp.decode_logs, data, content_type)


def requests(data: bytes) -> None:
    """A trace body on its whole way: decoded, assembled, merged, read, stored."""
    try:
        spans = otlp.decode_traces(data, PROTOBUF).spans
    except MalformedPayload:
        return
    by_trace: dict[str, list[Span]] = {}
    signals_in(spans, [], CLIENT)
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    for trace_id, found in by_trace.items():
        check_trace(otlp.collect_trace(trace_id, found))


def messages(data: bytes) -> None:
    """A logs body whose records belong to spans: their content joins the record."""
    try:
        records = otlp.decode_logs(data, PROTOBUF).logs
    except MalformedPayload:
        return
    by_trace: dict[str, list[LogRecord]] = {}
    signals_in([], records, CLIENT)
    for record in records:
        by_trace.setdefault(record.trace_id or "0" * 31 + "1", []).append(record)
    for trace_id, found in by_trace.items():
        spans = [
            Span(trace_id=trace_id, span_id=span_id, attributes={"gen_ai.operation.name": "chat"})
            for span_id in {record.span_id for record in found if record.span_id}
        ]
        check_trace(otlp.collect_trace(trace_id, spans, found))


def files(data: bytes) -> None:
    """A file of any content: traces, bodies to send, or a refusal that names it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(data)
        file.flush()
        path = Path(file.name)
        try:
            found = read([path])
        except MalformedPayload as refusal:
            if not str(refusal).startswith(path.name):
                raise
            return
        for kind, body in bodies(path):
            decode = otlp.decode_traces if kind == "traces" else otlp.decode_logs
            decode(body, PROTOBUF)
    for trace in found:
        check_trace(trace)


def signals(data: bytes) -> None:
    """A body of user signals."""
    with contextlib.suppress(MalformedPayload):
        for signal in parse_signals(data, NOW).signals:
            assert signal.sentiment in (-1, 0, 1)
            assert signal.signal_id
            msgspec.json.encode(signal)


def feedback(data: bytes) -> None:
    """A body at each of the paths where clients of other products post feedback."""
    for method, path in FEEDBACK_CALLS:
        call = call_of(method, path)
        assert call is not None
        with contextlib.suppress(MalformedPayload):
            parsed = call.read(data, CLIENT)
            assert call.answer(parsed).status in (200, 207)
            for signal in parsed.signals:
                assert signal.signal_id
                msgspec.json.encode(signal)


def stored(data: bytes) -> None:
    """The bytes of a stored trace."""
    with contextlib.suppress(MalformedPayload):
        check_trace(otlp.decode_trace(data))


def check_trace(trace: Trace) -> None:
    """Check what must hold of any trace, whatever is in it."""
    again = otlp.decode_trace(otlp.encode_trace(trace))
    assert _packed(again) == _packed(trace)
    assert 0 <= otlp.version_of(trace) < 2**64
    result = extract(trace, message_id_attribute="session.id")
    if not isinstance(result, RagRequest):
        assert result.reason
        return
    msgspec.json.encode(result)
    assert result.question is None or result.question.strip()
    assert result.answer is None or result.answer.strip()
    assert result.input_tokens is None or result.input_tokens >= 0
    assert [d.rank for d in result.documents] == sorted({d.rank for d in result.documents})
    assert all(document.rank > 0 for document in result.documents)


def _same_at_the_door(
    check: Callable[[bytes, str], otlp.Canonical],
    read_body: Callable[[bytes, str], Telemetry],
    data: bytes,
    content_type: str,
) -> None:
    try:
        checked = check(data, content_type)
    except MalformedPayload:
        checked = None
    try:
        telemetry = read_body(data, content_type)
    except MalformedPayload:
        assert checked is None
        return
    assert checked is not None
    assert checked.spans == len(telemetry.spans) + len(telemetry.logs)
    assert checked.rejected == telemetry.rejected
    again = read_body(checked.body, PROTOBUF)
    assert again.rejected == 0
    assert _packed((again.spans, again.logs)) == _packed((telemetry.spans, telemetry.logs))


def _packed(value: Any) -> bytes:
    """NaN is not equal to itself, its bytes are."""
    return msgspec.msgpack.encode(value)


TARGETS: dict[str, Target] = {
    "traces": traces,
    "logs": logs,
    "requests": requests,
    "messages": messages,
    "files": files,
    "signals": signals,
    "feedback": feedback,
    "stored": stored,
}
