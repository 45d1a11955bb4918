"""Traces as stored bytes, and the union of what several reports say of one trace.

The union is a join: commutative, associative and idempotent, so a trace comes out the same
whatever the order, the split over batches and the repetition of its spans. It only ever grows,
which is what makes `version_of` usable as a version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

from collector.errors import MalformedPayload
from collector.model import Attributes, LogRecord, Span, Trace

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Trace)
ClosedBy = Literal["root", "idle", "evicted", "shutdown", "file"]
_CLOSED_BY = ("evicted", "shutdown", "idle", "file", "root")
_SIZE_BITS = 35
_MAX_SIZE = (1 << _SIZE_BITS) - 1
_MAX_ITEMS = (1 << 63 - _SIZE_BITS) - 1
_T = TypeVar("_T")


def encode_trace(trace: Trace) -> bytes:
    """Return a trace as MessagePack."""
    return _encoder.encode(trace)


def decode_trace(data: bytes) -> Trace:
    """Return the trace that `encode_trace` wrote.

    Raises:
        MalformedPayload: these are other bytes.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedPayload("telemetry: not an encoded trace; read it from the source") from None


def merge_traces(a: Trace, b: Trace) -> Trace:
    """Return the union of two reports of one trace, in the order of `collect_trace`."""
    return collect_trace(
        a.trace_id,
        [*a.spans, *b.spans],
        [*a.logs, *b.logs],
        closed_by=max(a.closed_by, b.closed_by, key=_CLOSED_BY.index),
        spans_dropped=max(a.spans_dropped, b.spans_dropped),
    )


def collect_trace(
    trace_id: str,
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    closed_by: ClosedBy = "file",
    spans_dropped: int = 0,
) -> Trace:
    """Return a trace of the given spans and log records, unique and in a fixed order.

    Spans are unique by id and ordered by start, then id; log records are unique by content and
    ordered by time, then content.
    """
    by_id: dict[str, Span] = {}
    for span in spans:
        known = by_id.get(span.span_id)
        by_id[span.span_id] = span if known is None else join_spans(known, span)
    records = {_encoder.encode(record): record for record in logs}
    return Trace(
        trace_id=trace_id,
        spans=sorted(by_id.values(), key=lambda s: (s.start_ns or 0, s.span_id)),
        logs=[
            record for _, record in sorted(records.items(), key=lambda r: (r[1].time_ns or 0, r[0]))
        ],
        closed_by=closed_by,
        spans_dropped=spans_dropped,
    )


def join_spans(a: Span, b: Span) -> Span:
    """Return what two reports of one span say together, field by field the fuller one.

    Times widen, attributes unite, and of two values the longer one counts: a report made while
    the span was running never hides the one made at its end.
    """
    if a is b or a == b:
        return a
    starts = [t for t in (a.start_ns, b.start_ns) if t is not None]
    ends = [t for t in (a.end_ns, b.end_ns) if t is not None]
    return Span(
        trace_id=a.trace_id,
        span_id=a.span_id,
        parent_span_id=_fuller(a.parent_span_id, b.parent_span_id),
        name=_fuller(a.name, b.name),
        kind=max(a.kind, b.kind),
        start_ns=min(starts, default=None),
        end_ns=max(ends, default=None),
        attributes=_join_attributes(a.attributes, b.attributes),
        events=_fuller(a.events, b.events),
        status_code=max(a.status_code, b.status_code),
        status_message=_fuller(a.status_message, b.status_message),
        trace_state=_fuller(a.trace_state, b.trace_state),
        scope_name=_fuller(a.scope_name, b.scope_name),
        resource=_join_attributes(a.resource, b.resource),
        dropped_attributes=max(a.dropped_attributes, b.dropped_attributes),
    )


def version_of(trace: Trace) -> int:
    """Return a number that grows with the telemetry in a trace made by `collect_trace`.

    The number of spans and log records, then the encoded size of all they say; below 2**64. It
    is even: the number above it is left for what is decided anew about the same telemetry.
    """
    size: int = sum(
        len(_encoder.encode((s.parent_span_id, s.name, s.attributes, s.events, s.status_message)))
        + (s.end_ns is not None)
        + s.status_code
        for s in trace.spans
    )
    items = len(trace.spans) + len(trace.logs)
    return (min(items, _MAX_ITEMS) << _SIZE_BITS | min(size, _MAX_SIZE)) << 1


def _join_attributes(a: Attributes, b: Attributes) -> Attributes:
    joined = a | b
    for key in a.keys() & b.keys():
        joined[key] = _fuller(a[key], b[key])
    return {key: joined[key] for key in sorted(joined)}


def _fuller(a: _T, b: _T) -> _T:
    """Return the value with the longer encoding; of equally long ones the greater."""
    left, right = _encoder.encode(a), _encoder.encode(b)
    return a if (len(left), left) >= (len(right), right) else b
