"""Telemetry as it arrives: spans, log records, and traces put together from them."""

from __future__ import annotations

from typing import Any, Literal

from collector.model.value import Attributes, Value


class SpanEvent(Value, frozen=True):
    """One event on a span. `time_ns` is None where the sender gave no time."""

    name: str
    time_ns: int | None = None
    attributes: Attributes = {}


class Span(Value, frozen=True):
    """One OTLP span. Ids are lower-case hex; times are Unix nanoseconds, None when not sent.

    `status_code` is OTLP's: 0 unset, 1 ok, 2 error. `parent_span_id` is None for a root.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str = ""
    kind: int = 0
    start_ns: int | None = None
    end_ns: int | None = None
    attributes: Attributes = {}
    events: list[SpanEvent] = []
    status_code: int = 0
    status_message: str = ""
    trace_state: str = ""
    scope_name: str = ""
    resource: Attributes = {}
    dropped_attributes: int = 0


class LogRecord(Value, frozen=True):
    """One OTLP log record. `trace_id` and `span_id` are None where the record has none."""

    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None
    time_ns: int | None = None
    body: Any = None
    attributes: Attributes = {}
    scope_name: str = ""
    resource: Attributes = {}


class Telemetry(Value, frozen=True):
    """What one payload held, and how many items of it were unreadable and left out."""

    spans: list[Span] = []
    logs: list[LogRecord] = []
    rejected: int = 0
    rejected_reason: str | None = None


class Trace(Value, frozen=True):
    """All that is known of one trace: spans unique by span id, log records unique by content.

    `closed_by` says why it was closed: `root` (root ended, then quiet), `idle` (no root came),
    `evicted` (a bound was hit), `shutdown`, or `file` (read from a file as a whole).
    """

    trace_id: str
    spans: list[Span] = []
    logs: list[LogRecord] = []
    closed_by: Literal["root", "idle", "evicted", "shutdown", "file"] = "file"
    spans_dropped: int = 0
