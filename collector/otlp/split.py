"""One export request into one for each trace, for journals in which a key meets one consumer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp.ids import TRACE_ID_BYTES, id_of_bytes


class _Shape(NamedTuple):
    """What a request and its nested repeated fields are called."""

    message: Any
    groups: str
    scopes: str
    items: str


_SHAPES = {
    "otlp_traces": _Shape(ExportTraceServiceRequest, "resource_spans", "scope_spans", "spans"),
    "otlp_logs": _Shape(ExportLogsServiceRequest, "resource_logs", "scope_logs", "log_records"),
}


def split_by_trace(kind: Literal["otlp_traces", "otlp_logs"], body: bytes) -> dict[str, bytes]:
    """Return the part of a body that belongs to each trace, by trace id in hex; "" for none.

    Spans and records keep their order, and what they belong to: resource, scope and schema. A
    body of one trace comes back as it is.

    Args:
        kind: what the body is.
        body: a protobuf Export…ServiceRequest, as `canonical_traces` or `canonical_logs` give it.
    """
    shape = _SHAPES[kind]
    request = shape.message.FromString(body)
    ids = {trace_id for _, _, trace_id, _ in _items(request, shape)}
    if len(ids) < 2:
        return dict.fromkeys(ids or {""}, body)
    parts = {trace_id: shape.message() for trace_id in ids}
    copied: dict[str, tuple[Any, Any]] = {}
    for group, scope, trace_id, item in _items(request, shape):
        groups = getattr(parts[trace_id], shape.groups)
        last_group, last_scope = copied.get(trace_id, (None, None))
        if last_group is not group:
            groups.add(resource=group.resource, schema_url=group.schema_url)
        scopes = getattr(groups[-1], shape.scopes)
        if last_scope is not scope:
            scopes.add(scope=scope.scope, schema_url=scope.schema_url)
        copied[trace_id] = group, scope
        getattr(scopes[-1], shape.items).append(item)
    return {trace_id: part.SerializeToString() for trace_id, part in parts.items()}


def _items(request: Any, shape: _Shape) -> Iterator[tuple[Any, Any, str, Any]]:
    """Yield each span or record with its resource group, its scope and its trace id."""
    for group in getattr(request, shape.groups):
        for scope in getattr(group, shape.scopes):
            for item in getattr(scope, shape.items):
                trace_id = id_of_bytes(item.trace_id, TRACE_ID_BYTES) or b""
                yield group, scope, trace_id.hex(), item
