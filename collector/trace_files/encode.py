"""Spans and log records as OTLP protobuf."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from collector import otlp
from collector.model import LogRecord, Span


def body_of_spans(spans: Sequence[Span]) -> bytes:
    """Return an encoded ExportTraceServiceRequest; ids that OTLP has no room for are hashed."""
    groups: dict[bytes, list[Span]] = {}
    for span in spans:
        key = msgspec.msgpack.encode((span.scope_name, span.resource))
        groups.setdefault(key, []).append(span)
    value = {
        "resourceSpans": [
            {
                "resource": {"attributes": group[0].resource},
                "scopeSpans": [
                    {
                        "scope": {"name": group[0].scope_name},
                        "spans": [_span(span) for span in group],
                    }
                ],
            }
            for group in groups.values()
        ]
    }
    return otlp.canonical_traces(msgspec.json.encode(value), "application/json").body


def body_of_logs(logs: Sequence[LogRecord]) -> bytes:
    """Return an encoded ExportLogsServiceRequest."""
    value = {
        "resourceLogs": [
            {
                "resource": {"attributes": record.resource},
                "scopeLogs": [{"scope": {"name": record.scope_name}, "logRecords": [_log(record)]}],
            }
            for record in logs
        ]
    }
    return otlp.canonical_logs(msgspec.json.encode(value), "application/json").body


def _log(record: LogRecord) -> dict[str, Any]:
    return {
        "traceId": record.trace_id or "",
        "spanId": record.span_id or "",
        "eventName": record.event_name or "",
        "timeUnixNano": record.time_ns,
        "body": record.body,
        "attributes": record.attributes,
    }


def _span(span: Span) -> dict[str, Any]:
    return {
        "traceId": _id(span.trace_id, 16),
        "spanId": _id(span.span_id, 8),
        "parentSpanId": _id(span.parent_span_id, 8) if span.parent_span_id else "",
        "traceState": span.trace_state,
        "droppedAttributesCount": span.dropped_attributes,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": span.start_ns,
        "endTimeUnixNano": span.end_ns,
        "attributes": span.attributes,
        "events": [
            {"name": e.name, "timeUnixNano": e.time_ns, "attributes": e.attributes}
            for e in span.events
        ],
        "status": {"code": span.status_code, "message": span.status_message},
    }


def _id(value: str, size: int) -> str:
    """Return the id as hex of `size` bytes; a UUID keeps its digits where they fit."""
    digits = value.replace("-", "").lower()
    if len(digits) <= 2 * size and digits and set(digits) <= set("0123456789abcdef"):
        return digits.rjust(2 * size, "0")
    return hashlib.blake2b(value.encode(), digest_size=size).hexdigest()
