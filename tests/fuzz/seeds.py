"""What fuzzing starts from: recorded bodies, cut into pieces of a few spans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import otlp
from collector.errors import MalformedPayload
from collector.trace_files import bodies

RECORDINGS = Path(__file__).parents[1] / "data"
SHARED_TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
_SPANS = 3
_MAX_BYTES = 16_000
_PROTOBUF = "application/x-protobuf"


def seeds(target: str) -> list[bytes]:
    """Return the inputs that fuzzing a target starts from."""
    return [seed for seed in _seeds(target) if len(seed) <= _MAX_BYTES]


def _seeds(target: str) -> list[bytes]:
    if target == "signals":
        return [json.dumps(signal).encode() for signal in _SIGNALS]
    if target == "feedback":
        recorded = sorted((RECORDINGS / "feedback").glob("*.json"))
        return [body for path in recorded for body in _posted(json.loads(path.read_text()))]
    if target == "files":
        return [path.read_bytes() for path in _paths()]
    if target in ("logs", "messages"):
        return [*_bodies("logs"), LOGS]
    trace_bodies = [piece for body in _bodies("traces") for piece in pieces(body)]
    if target == "stored":
        return [
            otlp.encode_trace(otlp.collect_trace(spans[0].trace_id, spans))
            for body in trace_bodies
            if (spans := otlp.decode_traces(body, _PROTOBUF).spans)
        ]
    as_json = [path.read_bytes() for path in _paths() if path.suffix == ".json"]
    return trace_bodies + (as_json if target == "traces" else [])


def pieces(body: bytes) -> Iterator[bytes]:
    """Yield a trace request in pieces of three spans, small enough to be read often."""
    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for start in range(0, len(scope.spans), _SPANS):
                piece = ExportTraceServiceRequest()
                group = piece.resource_spans.add(resource=resource.resource)
                group.scope_spans.add(scope=scope.scope, spans=scope.spans[start : start + _SPANS])
                yield piece.SerializeToString()


def _paths() -> list[Path]:
    """Return the recordings of the tests, and those beside the project where there are any."""
    return sorted([*RECORDINGS.glob("*.pb"), *SHARED_TRACES.glob("[cp]*/*/*.*")])


def _posted(recorded: Any) -> Iterator[bytes]:
    """Yield the bodies of recorded calls; a file may be a body itself."""
    if isinstance(recorded, dict) and "calls" in recorded:
        for call in recorded["calls"]:
            yield from _posted(call)
    elif isinstance(recorded, dict) and "body" in recorded:
        yield json.dumps(recorded["body"]).encode()
    else:
        yield json.dumps(recorded).encode()


def _bodies(kind: str) -> list[bytes]:
    found = []
    for path in _paths():
        try:
            found += [body for of_kind, body in bodies(path) if of_kind == kind]
        except MalformedPayload:
            continue
    return found


_ASKED = {"role": "user", "content": "What does Pro cost?"}
_SAID = {"index": 0, "finish_reason": "stop", "message": {"content": "Pro costs 12 a month [1]."}}


def _record(name: str, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        "spanId": "00f067aa0ba902b7",
        "timeUnixNano": "1764400000000000000",
        "eventName": name,
        "body": body,
        "attributes": {"gen_ai.system": "openai"},
    }


LOGS = otlp.canonical_logs(
    json.dumps(
        {
            "resourceLogs": [
                {
                    "scopeLogs": [
                        {
                            "logRecords": [
                                _record("gen_ai.user.message", _ASKED),
                                _record("gen_ai.choice", _SAID),
                            ]
                        }
                    ]
                }
            ]
        }
    ).encode(),
    "application/json",
).body
"""The question and the answer of one call, as its log records."""

_SIGNALS: list[Any] = [
    {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "kind": "thumbs_down", "comment": "wrong"},
    [
        {"message_id": "m1", "kind": "rating", "value": 4, "scale": "1..5"},
        {"conversation_id": "c1", "kind": "copy", "occurred_at": "2026-11-29T10:00:00Z"},
    ],
]
