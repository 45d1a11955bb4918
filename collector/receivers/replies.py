"""Replies of the OTLP/HTTP protocol, in the format the request came in."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec
from google.rpc import code_pb2  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.otlp import Canonical
from collector.receivers.intake import TelemetryKind

Format = Literal["application/json", "application/x-protobuf"]
JSON: Format = "application/json"
PROTOBUF: Format = "application/x-protobuf"

_RPC_CODES = {
    400: code_pb2.INVALID_ARGUMENT,
    401: code_pb2.UNAUTHENTICATED,
    403: code_pb2.PERMISSION_DENIED,
    404: code_pb2.NOT_FOUND,
    405: code_pb2.UNIMPLEMENTED,
    408: code_pb2.DEADLINE_EXCEEDED,
    413: code_pb2.INVALID_ARGUMENT,
    415: code_pb2.INVALID_ARGUMENT,
    429: code_pb2.RESOURCE_EXHAUSTED,
    500: code_pb2.INTERNAL,
    503: code_pb2.UNAVAILABLE,
}


class Reply(NamedTuple):
    """One HTTP response; header names are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytes


def format_of(content_type: str, body: bytes = b"") -> Format:
    """Return the format to answer in: the request's, by its bytes where its header is unclear."""
    media_type = content_type.partition(";")[0].strip().lower()
    if "json" in media_type:
        return JSON
    if "protobuf" in media_type:
        return PROTOBUF
    # A protobuf request starts with 0x0a, which JSON knows as a blank.
    return PROTOBUF if body and body.lstrip(b" \t\r")[:1] not in (b"{", b"[") else JSON


def telemetry_reply(kind: TelemetryKind, found: Canonical, form: Format) -> Reply:
    """Say that a body was taken, and which items of it were not."""
    if form == PROTOBUF:
        return Reply(200, {"content-type": PROTOBUF}, export_response(kind, found))
    if not found.rejected:
        return json_reply({})
    count = "rejectedSpans" if kind == "otlp_traces" else "rejectedLogRecords"
    # 64-bit integers are strings in protobuf's JSON.
    partial = {count: str(found.rejected), "errorMessage": found.rejected_reason or ""}
    return json_reply({"partialSuccess": partial})


def export_response(kind: TelemetryKind, found: Canonical) -> bytes:
    """Return the protobuf Export…ServiceResponse; empty where everything was taken."""
    if not found.rejected:
        return b""
    if kind == "otlp_traces":
        traces = ExportTraceServiceResponse()
        traces.partial_success.rejected_spans = found.rejected
        traces.partial_success.error_message = found.rejected_reason or ""
        return traces.SerializeToString()
    logs = ExportLogsServiceResponse()
    logs.partial_success.rejected_log_records = found.rejected
    logs.partial_success.error_message = found.rejected_reason or ""
    return logs.SerializeToString()


def json_reply(value: object, status: int = 200) -> Reply:
    """Answer with a JSON body."""
    return Reply(status, {"content-type": JSON}, msgspec.json.encode(value))


def error_reply(
    status: int, message: str, form: Format, headers: dict[str, str] | None = None
) -> Reply:
    """Answer with a google.rpc.Status, as OTLP/HTTP asks for."""
    code = _RPC_CODES[status]
    if form == PROTOBUF:
        body: bytes = Status(code=code, message=message).SerializeToString()
    else:
        body = msgspec.json.encode({"code": code, "message": message})
    return Reply(status, {"content-type": form, **(headers or {})}, body)


def retry_after(seconds: float) -> dict[str, str]:
    """Return the header that tells a client when to come back: whole seconds, at least one."""
    return {"retry-after": str(max(1, math.ceil(seconds)))}
