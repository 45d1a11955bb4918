"""Exports of other products with anything inside are read, or refused with the cure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.errors import MalformedPayload
from collector.extract import extract
from collector.model import NotARequest, RagRequest
from collector.otlp import decode_trace, encode_trace
from collector.trace_files import bodies, read

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        [
            "2025-06-05T15:45:52.000Z",
            "9999-12-31T23:59:59Z",
            "0001-01-01T00:00:00Z",
            "2025-13-45",
            '{"a": [1',
            '{"messages": [{"role": "user", "content": "Q?"}]}',
            "\ud800",
            "GENERATION",
            "RETRIEVER",
            "int64",
            "id-1",
            "id-2",
        ]
    ),
)
value = st.recursive(
    odd, lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=3), v, max_size=2)
)


def members(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), value, max_size=len(names))


identified = st.sampled_from([{"id": "id-1", "spanID": "1"}, {"id": "id-2", "spanID": "2"}])
observations = st.tuples(
    members(
        "id", "type", "parentObservationId", "startTime", "endTime", "input", "output", "metadata",
        "level", "usageDetails", "costDetails", "totalCost", "model", "completionStartTime",
    ),
    identified,
).map(lambda pair: pair[0] | pair[1])  # fmt: skip
langfuse = st.builds(
    lambda trace, found: {"trace": trace, "observations": found},
    members("id", "timestamp", "latency", "input", "output", "metadata", "userId", "sessionId"),
    st.lists(observations | value, max_size=3),
)
tags = st.lists(members("key", "type", "value") | value, max_size=3)
jaeger_spans = st.builds(
    lambda span, ids, found: span | ids | {"tags": found, "logs": [{"fields": found}]},
    members("traceID", "operationName", "references", "startTime", "duration", "processID"),
    identified,
    tags,
)
jaeger = st.builds(
    lambda spans, processes: {"traceID": "a1", "spans": spans, "processes": processes},
    st.lists(jaeger_spans | value, max_size=3),
    st.dictionaries(st.sampled_from(["p1", "p2"]), value, max_size=2) | value,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.one_of(langfuse, jaeger, value))
def test_an_export_with_anything_inside_is_read_or_refused(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(content))
    try:
        traces = read([path])
        sent = bodies(path)
    except MalformedPayload:
        return
    assert len(sent) >= 1
    for trace in traces:
        assert decode_trace(encode_trace(trace)).trace_id == trace.trace_id
        assert isinstance(extract(trace), RagRequest | NotARequest)
