"""Spans and traces for tests, in few words."""

from __future__ import annotations

from typing import Any

from collector.model import LogRecord, Span, SpanEvent, Trace
from collector.otlp import collect_trace

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
START_NS = 1_764_400_000_000_000_000


def span(
    number: int,
    attributes: dict[str, Any] | None = None,
    *,
    parent: int | None = None,
    **fields: Any,
) -> Span:
    """Return span `number`, which runs from that millisecond on for ten of them."""
    defaults: dict[str, Any] = {
        "name": f"step {number}",
        "start_ns": START_NS + number * 1_000_000,
        "end_ns": START_NS + (number + 10) * 1_000_000,
    }
    return Span(
        trace_id=TRACE_ID,
        span_id=span_id(number),
        parent_span_id=None if parent is None else span_id(parent),
        attributes=attributes or {},
        **(defaults | fields),
    )


def span_id(number: int) -> str:
    """Return the id of span `number`."""
    return f"{number + 1:016x}"


def event(
    name: str, attributes: dict[str, Any] | None = None, at_ms: int | None = None
) -> SpanEvent:
    """Return an event `at_ms` milliseconds after the first span began."""
    time_ns = None if at_ms is None else START_NS + at_ms * 1_000_000
    return SpanEvent(name=name, time_ns=time_ns, attributes=attributes or {})


def trace(*spans: Span, logs: tuple[LogRecord, ...] = ()) -> Trace:
    """Return the trace of some spans."""
    return collect_trace(TRACE_ID, spans, logs)
