"""OTLP requests for tests, built with the protocol's own message classes."""

from __future__ import annotations

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def trace_request(
    spans: int = 1, *, without_id: int = 0, text: str = "What does Pro cost?"
) -> ExportTraceServiceRequest:
    """Return a request of `spans` good spans and `without_id` that have no trace id."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(spans + without_id):
        span = scope.spans.add()
        span.name = f"step {number}"
        span.span_id = (number + 1).to_bytes(8, "big")
        span.start_time_unix_nano = 1_764_400_000_000_000_000
        span.end_time_unix_nano = span.start_time_unix_nano + 5_000_000
        attribute = span.attributes.add()
        attribute.key = "input.value"
        attribute.value.string_value = text
        if number < spans:
            span.trace_id = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")
    return request


def log_request(records: int = 1) -> ExportLogsServiceRequest:
    """Return a request of `records` log records."""
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for number in range(records):
        record = scope.log_records.add()
        record.event_name = "gen_ai.evaluation.result"
        record.time_unix_nano = 1_764_400_000_000_000_000 + number
    return request
