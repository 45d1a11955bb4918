"""Jaeger's JSON, of its query API and its UI: times in microseconds, tags as a list.

Source: https://github.com/jaegertracing/jaeger (model/json).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from collector.conventions.numbers import integer, real, text
from collector.model import Attributes, Span, SpanEvent
from collector.otlp import clean_json

_KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_MAX_MICROSECONDS = 2**63 // 1000
_STATUS = {"ok": 1, "error": 2}


def recognises(value: Mapping[str, Any]) -> bool:
    """Tell whether a JSON object is a Jaeger trace, or an answer that holds some."""
    data = value.get("data")
    found = data if isinstance(data, list) else [value]
    return bool(found) and all(
        isinstance(t, Mapping) and isinstance(t.get("spans"), list) and "processes" in t
        for t in found
    )


def spans_of(value: Mapping[str, Any]) -> list[Span]:
    """Return all spans of a Jaeger trace or of an answer with several."""
    value = clean_json(value)
    data = value.get("data")
    return [
        span for trace in (data if isinstance(data, list) else [value]) for span in _of_trace(trace)
    ]


def _of_trace(trace: Mapping[str, Any]) -> Iterator[Span]:
    processes = trace.get("processes")
    processes = processes if isinstance(processes, Mapping) else {}
    resources = {key: _resource(process) for key, process in processes.items()}
    for span in trace["spans"]:
        if isinstance(span, Mapping):
            trace_id = text(span.get("traceID")) or text(trace.get("traceID"))
            span_id = text(span.get("spanID"))
            if trace_id is not None and span_id is not None:
                resource = resources.get(str(span.get("processID")), {})
                yield _span(span, trace_id.lower(), span_id.lower(), resource)


def _span(span: Mapping[str, Any], trace_id: str, span_id: str, resource: Attributes) -> Span:
    tags = _tags(span.get("tags"))
    start = integer(span.get("startTime"))
    duration = integer(span.get("duration"))
    logs = span.get("logs")
    ended = start is not None and duration is not None
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=_parent(span),
        name=text(span.get("operationName")) or "",
        kind=_KINDS.get(str(tags.pop("span.kind", "")).lower(), 0),
        start_ns=_ns(start),
        end_ns=_ns((start or 0) + (duration or 0)) if ended else None,
        status_code=_status(tags),
        status_message=text(tags.pop("otel.status_description", None)) or "",
        scope_name=text(tags.pop("otel.scope.name", None))
        or text(tags.pop("otel.library.name", None))
        or "",
        attributes=tags,
        events=[_event(log) for log in logs if isinstance(log, Mapping)]
        if isinstance(logs, list)
        else [],
        resource=resource,
    )


def _ns(microseconds: int | None) -> int | None:
    return microseconds * 1000 if microseconds and microseconds < _MAX_MICROSECONDS else None


def _status(tags: Attributes) -> int:
    named = _STATUS.get(str(tags.pop("otel.status_code", "")).lower())
    if named is not None:
        return named
    return 2 if str(tags.get("error", "")).lower() == "true" else 0


def _parent(span: Mapping[str, Any]) -> str | None:
    references = span.get("references")
    for reference in references if isinstance(references, list) else []:
        if isinstance(reference, Mapping) and reference.get("refType") == "CHILD_OF":
            return (text(reference.get("spanID")) or "").lower() or None
    return (text(span.get("parentSpanID")) or "").lower() or None


def _event(log: Mapping[str, Any]) -> SpanEvent:
    fields = _tags(log.get("fields"))
    time = integer(log.get("timestamp"))
    name = fields.pop("event", None) or fields.pop("message", None)
    return SpanEvent(name=text(name) or "", time_ns=_ns(time), attributes=fields)


def _resource(process: Any) -> Attributes:
    if not isinstance(process, Mapping):
        return {}
    name = text(process.get("serviceName"))
    return _tags(process.get("tags")) | ({"service.name": name} if name else {})


def _tags(tags: Any) -> Attributes:
    if not isinstance(tags, list):
        return {}
    return {
        tag["key"]: _value(tag.get("value"), tag.get("type"))
        for tag in tags
        if isinstance(tag, Mapping) and isinstance(tag.get("key"), str)
    }


def _value(value: Any, kind: Any) -> Any:
    if kind == "bool":
        return str(value).lower() == "true"
    if kind in ("int64", "float64"):
        number = real(value)
        if number is not None:
            return int(number) if kind == "int64" and abs(number) < 2**63 else number
    return value
