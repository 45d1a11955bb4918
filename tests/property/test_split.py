"""However spans lie in resources and scopes, taken apart by trace none is lost or changed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import otlp

# Resources of scopes of items; an item is the number of its trace.
layouts = st.lists(st.lists(st.lists(st.integers(1, 4), max_size=6), max_size=3), max_size=4)


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


@settings(max_examples=200, deadline=None)
@given(layout=layouts)
def test_spans_keep_trace_resource_scope_and_order(layout: list[list[list[int]]]) -> None:
    request = ExportTraceServiceRequest()
    expected: dict[str, list[tuple[str, str, bytes]]] = {}
    number = 0
    for place, scopes in enumerate(layout):
        group = request.resource_spans.add(schema_url=f"resource {place}")
        for which, traces in enumerate(scopes):
            scope = group.scope_spans.add()
            scope.scope.name = f"scope {which}"
            for of in traces:
                number += 1
                span_id = number.to_bytes(8, "big")
                scope.spans.add(trace_id=trace_id(of), span_id=span_id)
                found = expected.setdefault(trace_id(of).hex(), [])
                found.append((group.schema_url, scope.scope.name, span_id))

    parts = otlp.split_by_trace("otlp_traces", request.SerializeToString())

    assert set(parts) == set(expected or {""})
    for of_trace, spans in expected.items():
        part = ExportTraceServiceRequest.FromString(parts[of_trace])
        assert [
            (group.schema_url, scope.scope.name, span.span_id)
            for group in part.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ] == spans
        assert all(
            span.trace_id.hex() == of_trace
            for group in part.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        )


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(0, 3), max_size=8))
def test_log_records_without_a_trace_stay_together(ids: list[int]) -> None:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for number, of in enumerate(ids):
        scope.log_records.add(trace_id=trace_id(of) if of else b"", time_unix_nano=number + 1)

    parts = otlp.split_by_trace("otlp_logs", request.SerializeToString())

    found = {
        of_trace: [
            record.time_unix_nano - 1
            for group in ExportLogsServiceRequest.FromString(part).resource_logs
            for scope in group.scope_logs
            for record in scope.log_records
        ]
        for of_trace, part in parts.items()
    }
    names = [trace_id(of).hex() if of else "" for of in ids]
    assert found == {
        name: [number for number, other in enumerate(names) if other == name]
        for name in names or ("",)
    }
