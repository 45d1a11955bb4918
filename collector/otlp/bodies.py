"""OTLP/HTTP bodies: checking them at the door, and decoding them into telemetry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from collector.errors import MalformedPayload
from collector.model import Attributes, LogRecord, Span, SpanEvent, Telemetry
from collector.otlp import json_values
from collector.otlp.ids import SPAN_ID_BYTES, TRACE_ID_BYTES, id_of_bytes
from collector.otlp.salvage import salvage

_NO_TRACE_ID = bytes(TRACE_ID_BYTES)
_NO_SPAN_ID = bytes(SPAN_ID_BYTES)
_NO_ID = "traceId or spanId: must be 16 and 8 bytes, not all zero"
_UNPARSABLE = "a record holds text that is not UTF-8, or is nested too deep"


class Canonical(NamedTuple):
    """A checked body as the journal keeps it.

    `body` is a protobuf Export…ServiceRequest without the items that cannot be read; `spans`
    counts the spans (or log records) in it, `rejected` those left out.
    """

    body: bytes
    spans: int
    rejected: int
    rejected_reason: str | None


class _Parsed(NamedTuple):
    """A request message, whether it differs from the bytes it came from, and what it lost."""

    request: Any
    changed: bool
    rejected: int
    reason: str | None


def canonical_traces(body: bytes, content_type: str) -> Canonical:
    """Check an OTLP/HTTP trace body and return it as protobuf. Protobuf passes unchanged.

    Args:
        body: the body, decompressed.
        content_type: the Content-Type header; looked through when it is missing or wrong.

    Raises:
        MalformedPayload: the body is no trace export; the message names the field and the cure.
    """
    parsed = _parse_traces(body, content_type)
    spans = sum(len(scope.spans) for _, scope in _span_scopes(parsed.request))
    return _canonical(parsed, body, spans)


def canonical_logs(body: bytes, content_type: str) -> Canonical:
    """Check an OTLP/HTTP logs body and return it as protobuf. See `canonical_traces`."""
    parsed = _parse_logs(body, content_type)
    records = sum(len(scope.log_records) for _, scope in _log_scopes(parsed.request))
    return _canonical(parsed, body, records)


def decode_traces(body: bytes, content_type: str) -> Telemetry:
    """Decode an OTLP/HTTP trace body into spans.

    Args:
        body: the body, decompressed.
        content_type: the Content-Type header; looked through when it is missing or wrong.

    Raises:
        MalformedPayload: the body is no trace export; the message names the field and the cure.
    """
    parsed = _parse_traces(body, content_type)
    spans: list[Span] = []
    for group, scope in _span_scopes(parsed.request):
        resource = attributes_of(group.resource.attributes)
        name = scope.scope.name
        spans += [_span(span, name, resource) for span in scope.spans]
    return Telemetry(spans=spans, rejected=parsed.rejected, rejected_reason=parsed.reason)


def decode_logs(body: bytes, content_type: str) -> Telemetry:
    """Decode an OTLP/HTTP logs body into log records. See `decode_traces`."""
    parsed = _parse_logs(body, content_type)
    logs: list[LogRecord] = []
    for group, scope in _log_scopes(parsed.request):
        resource = attributes_of(group.resource.attributes)
        name = scope.scope.name
        logs += [_log_record(record, name, resource) for record in scope.log_records]
    return Telemetry(logs=logs, rejected=parsed.rejected, rejected_reason=parsed.reason)


# --- Bytes to request messages -----------------------------------------------------------


def _parse_traces(body: bytes, content_type: str) -> _Parsed:
    parsed = _parse(body, content_type, ExportTraceServiceRequest, _traces_of_json)
    kept, changed, bad = parsed.request, parsed.changed, 0
    for _, scope in _span_scopes(kept):
        if all(_ids_are_fine(span.trace_id, span.span_id) for span in scope.spans):
            continue
        changed = True
        readable = [
            span
            for span in scope.spans
            if _ids_are_fine(span.trace_id, span.span_id) or _repair_ids(span)
        ]
        bad += len(scope.spans) - len(readable)
        # As a whole: taking them out one by one takes ever longer the more there are.
        del scope.spans[:]
        scope.spans.extend(readable)
    reason = parsed.reason or (_NO_ID if bad else None)
    return _Parsed(kept, changed, parsed.rejected + bad, reason)


def _parse_logs(body: bytes, content_type: str) -> _Parsed:
    return _parse(body, content_type, ExportLogsServiceRequest, _logs_of_json)


def _parse(
    body: bytes,
    content_type: str,
    message: Callable[[], Any],
    of_json: Callable[[Any], tuple[Any, Counter[str]]],
) -> _Parsed:
    if not body:
        return _Parsed(message(), changed=False, rejected=0, reason=None)
    if is_json(body, content_type):
        request, reasons = of_json(json_values.parse_json(body))
        reason = next(iter(reasons), None)
        return _Parsed(request, changed=True, rejected=reasons.total(), reason=reason)
    request = message()
    rejected = 0
    try:
        request.ParseFromString(body)
    except DecodeError:
        try:
            rejected = salvage(request, body)
        except DecodeError:
            raise _not_otlp(request) from None
    if not request.ListFields() and not rejected:
        raise _not_otlp(request)
    return _Parsed(request, rejected > 0, rejected, _UNPARSABLE if rejected else None)


def _not_otlp(request: Message) -> MalformedPayload:
    return MalformedPayload(
        f"body: not a protobuf {request.DESCRIPTOR.name}; send OTLP protobuf, or OTLP JSON with "
        "content type application/json"
    )


def is_json(body: bytes, content_type: str) -> bool:
    """Tell JSON from protobuf: by the bytes where they are clear, else by the header.

    Only 0x0a is both a JSON blank and the first byte of a protobuf request.
    """
    if not body:
        return False
    if body[0] != 0x0A:
        return (
            body[:3] == b"\xef\xbb\xbf"
            or body[:256].lstrip(b" \t\r\n")[:1] in (b"{", b"[")
            or ("json" in content_type.lower() and body[0] in b' \t\r\n"-0123456789tfn')
        )
    return "json" in content_type.lower() and body[:256].lstrip(b" \t\r\n")[:1] in (b"{", b"[")


def _canonical(parsed: _Parsed, body: bytes, items: int) -> Canonical:
    kept = parsed.request.SerializeToString() if parsed.changed else body
    return Canonical(kept, items, parsed.rejected, parsed.reason)


def _ids_are_fine(trace_id: bytes, span_id: bytes) -> bool:
    return (
        len(trace_id) == TRACE_ID_BYTES
        and len(span_id) == SPAN_ID_BYTES
        and trace_id != _NO_TRACE_ID
        and span_id != _NO_SPAN_ID
    )


def _repair_ids(span: trace_pb2.Span) -> bool:
    trace_id = id_of_bytes(span.trace_id, TRACE_ID_BYTES)
    span_id = id_of_bytes(span.span_id, SPAN_ID_BYTES)
    if not trace_id or not span_id:
        return False
    span.trace_id, span.span_id = trace_id, span_id
    span.parent_span_id = id_of_bytes(span.parent_span_id, SPAN_ID_BYTES) or b""
    return True


def _traces_of_json(value: Any) -> tuple[ExportTraceServiceRequest, Counter[str]]:
    request = ExportTraceServiceRequest()
    reasons: Counter[str] = Counter()
    for group in _groups(value, "resourceSpans", "resourceLogs", "/v1/logs"):
        target = request.resource_spans.add()
        json_values.fill_resource(target.resource, json_values.member(group, "resource"))
        scopes = json_values.items(group, "scopeSpans")
        for scope in scopes or json_values.items(group, "instrumentationLibrarySpans"):
            kept = target.scope_spans.add()
            kept.scope.name = json_values.scope_name(json_values.member(scope, "scope"))
            _keep(json_values.items(scope, "spans"), json_values.span_of, kept.spans, reasons)
    return request, reasons


def _logs_of_json(value: Any) -> tuple[ExportLogsServiceRequest, Counter[str]]:
    request = ExportLogsServiceRequest()
    reasons: Counter[str] = Counter()
    for group in _groups(value, "resourceLogs", "resourceSpans", "/v1/traces"):
        target = request.resource_logs.add()
        json_values.fill_resource(target.resource, json_values.member(group, "resource"))
        for scope in json_values.items(group, "scopeLogs"):
            kept = target.scope_logs.add()
            kept.scope.name = json_values.scope_name(json_values.member(scope, "scope"))
            records = json_values.items(scope, "logRecords")
            _keep(records, json_values.log_record_of, kept.log_records, reasons)
    return request, reasons


def _groups(value: Any, name: str, other: str, other_path: str) -> list[Any]:
    if not isinstance(value, dict):
        raise MalformedPayload(f"body: must be a JSON object with {name}")
    if value and json_values.member(value, name) is None:
        if json_values.member(value, other) is not None:
            raise MalformedPayload(f"{name}: missing; a body of {other} belongs to {other_path}")
        raise MalformedPayload(f"{name}: missing; send an OTLP JSON export request")
    return json_values.items(value, name)


def _keep(
    values: Iterable[Any], read: Callable[[Any], Any], kept: Any, reasons: Counter[str]
) -> None:
    for value in values:
        try:
            kept.append(read(value))
        except json_values.Unreadable as err:
            reasons[str(err)] += 1


# --- Request messages to values ----------------------------------------------------------


def _span_scopes(
    request: ExportTraceServiceRequest,
) -> Iterator[tuple[trace_pb2.ResourceSpans, trace_pb2.ScopeSpans]]:
    for group in request.resource_spans:
        for scope in group.scope_spans:
            yield group, scope


def _log_scopes(
    request: ExportLogsServiceRequest,
) -> Iterator[tuple[logs_pb2.ResourceLogs, logs_pb2.ScopeLogs]]:
    for group in request.resource_logs:
        for scope in group.scope_logs:
            yield group, scope


def _span(span: trace_pb2.Span, scope_name: str, resource: Attributes) -> Span:
    parent, status = span.parent_span_id, span.status
    if len(parent) != SPAN_ID_BYTES or not any(parent):
        parent = id_of_bytes(parent, SPAN_ID_BYTES) or b""
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=parent.hex() or None,
        name=span.name,
        kind=span.kind,
        start_ns=span.start_time_unix_nano or None,
        end_ns=span.end_time_unix_nano or None,
        attributes=attributes_of(span.attributes),
        events=[
            SpanEvent(
                name=event.name,
                time_ns=event.time_unix_nano or None,
                attributes=attributes_of(event.attributes),
            )
            for event in span.events
            if event.name or event.attributes  # an empty one takes two bytes here, and 150 there
        ],
        status_code=status.code,
        status_message=status.message,
        trace_state=span.trace_state,
        scope_name=scope_name,
        resource=resource,
        dropped_attributes=span.dropped_attributes_count,
    )


def _log_record(record: logs_pb2.LogRecord, scope_name: str, resource: Attributes) -> LogRecord:
    attributes = attributes_of(record.attributes)
    event_name = record.event_name or attributes.get("event.name")
    return LogRecord(
        trace_id=(id_of_bytes(record.trace_id, TRACE_ID_BYTES) or b"").hex() or None,
        span_id=(id_of_bytes(record.span_id, SPAN_ID_BYTES) or b"").hex() or None,
        event_name=event_name if isinstance(event_name, str) else None,
        time_ns=record.time_unix_nano or record.observed_time_unix_nano or None,
        body=_value(record.body),
        attributes=attributes,
        scope_name=scope_name,
        resource=resource,
    )


def attributes_of(pairs: Iterable[common_pb2.KeyValue]) -> Attributes:
    """Return key-value pairs as a dict; of a repeated key the last one counts."""
    # Most values are text: those are read without a call.
    return {pair.key: (value := pair.value).string_value or _value(value) for pair in pairs}


def _value(value: common_pb2.AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return attributes_of(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)
