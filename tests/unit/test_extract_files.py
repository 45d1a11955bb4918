"""Trace files of all kinds, read into traces and turned into bodies to send."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from collector.errors import MalformedPayload
from collector.extract import extract
from collector.model import RagRequest
from collector.otlp import decode_logs, decode_traces
from collector.trace_files import bodies, read
from tests.fakes.otlp_bodies import log_request, trace_request

PROTOBUF = "application/x-protobuf"
TRACE_ID = "5b8efff798038103d269b633813fc60c"


def otlp(trace_id: str = TRACE_ID, span_id: str = "1", start: int = 5) -> dict[str, Any]:
    span = {"traceId": trace_id, "spanId": span_id, "startTimeUnixNano": start}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def logs(trace_id: str = TRACE_ID) -> dict[str, Any]:
    record = {"traceId": trace_id, "spanId": "1", "eventName": "gen_ai.choice"}
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}


def written(folder: Path, content: Any, name: str = "file.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def test_json_protobuf_and_gzip_of_one_request_are_the_same(tmp_path: Path) -> None:
    plain = trace_request(spans=2).SerializeToString()
    of_protobuf = read([written(tmp_path, plain, "a.pb")])
    assert read([written(tmp_path, gzip.compress(plain), "a.gz")]) == of_protobuf
    assert bodies(tmp_path / "a.gz") == [("traces", plain)]
    (trace,) = read([written(tmp_path, otlp())])
    assert [span.start_ns for span in trace.spans] == [5]
    assert trace.closed_by == "file"


def test_json_lines_may_mix_traces_and_logs(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(x) for x in (otlp(span_id="1"), logs(), otlp(span_id="2")))
    path = written(tmp_path, lines.encode() + b"\n\n", "collector.jsonl")
    (trace,) = read([path])
    assert (len(trace.spans), len(trace.logs)) == (2, 1)
    assert [kind for kind, _ in bodies(path)] == ["traces", "logs", "traces"]


def test_an_array_of_requests_is_read(tmp_path: Path) -> None:
    (trace,) = read([written(tmp_path, [otlp(span_id="1"), otlp(span_id="2")])])
    assert len(trace.spans) == 2


def test_log_files_join_the_spans_of_their_trace(tmp_path: Path) -> None:
    spans = written(tmp_path, otlp(), "spans.json")
    beside = written(tmp_path, logs(), "logs.json")
    assert read([spans], [beside]) == read([spans, beside])
    (trace,) = read([spans], [beside])
    assert (len(trace.spans), len(trace.logs)) == (1, 1)


def test_logs_in_protobuf_are_not_taken_for_spans(tmp_path: Path) -> None:
    path = written(tmp_path, log_request(2).SerializeToString(), "logs.pb")
    ((kind, body),) = bodies(path)
    assert kind == "logs"
    assert len(decode_logs(body, PROTOBUF).logs) == 2


def test_traces_come_in_order_of_their_start(tmp_path: Path) -> None:
    late = written(tmp_path, otlp("a" * 32, start=9), "late.json")
    early = written(tmp_path, otlp("b" * 32, start=3), "early.json")
    assert [trace.trace_id[0] for trace in read([late, early])] == ["b", "a"]


def test_a_trace_spread_over_files_is_one_trace(tmp_path: Path) -> None:
    one = written(tmp_path, otlp(span_id="1"), "1.json")
    two = written(tmp_path, otlp(span_id="2"), "2.json")
    (trace,) = read([one, two, one])
    assert len(trace.spans) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"rating": "like"}, "give OTLP"),
        ([1, 2], "give OTLP"),
        (b"", "give OTLP"),
        (b"some text", "give OTLP"),
        (b"{broken", "not JSON"),
        (json.dumps(otlp()).encode() + b"\n{broken\n", "line 2: body: not JSON"),
        (gzip.compress(b"x" * 1000)[:-9], "gzip: the end is missing"),
        (b"\x1f\x8b\x08 nonsense", "gzip: the data is damaged"),
    ],
    ids=["a signal", "a list", "nothing", "text", "broken", "broken line", "cut gzip", "bad gzip"],
)
def test_other_content_is_refused_with_file_and_cure(
    tmp_path: Path, content: Any, words: str
) -> None:
    path = written(tmp_path, content, "odd.json")
    for function in (bodies, lambda file: read([file])):
        with pytest.raises(MalformedPayload) as refused:
            function(path)
        assert str(refused.value).startswith("odd.json: ")
        assert words in str(refused.value)


def langfuse(**trace: Any) -> dict[str, Any]:
    return {
        "trace": {"id": "b3b7-x", "timestamp": "2025-06-05T15:45:52.000Z", "latency": 2.5} | trace,
        "observations": [
            {
                "id": "obs-2",
                "type": "GENERATION",
                "parentObservationId": "obs-1",
                "startTime": "2025-06-05T15:45:53.000Z",
                "endTime": None,
                "model": "gpt-4",
                "input": [{"role": "user", "content": "Q?"}],
                "output": "A.",
                "usageDetails": {"input": 49, "output": 40, "total": 89},
                "costDetails": {"input": 0.1, "total": 0.3},
            },
            {
                "id": "obs-1",
                "type": "SPAN",
                "startTime": "2025-06-05T15:45:52.000Z",
                "endTime": "2025-06-05T15:45:54.000Z",
                "usageDetails": {"input": 0, "output": 0},
                "totalCost": 0,
            },
        ],
    }


def only_record(path: Path) -> RagRequest:
    (trace,) = read([path])
    found = extract(trace)
    assert isinstance(found, RagRequest)
    return found


def test_a_langfuse_export_is_read_with_its_own_ids(tmp_path: Path) -> None:
    export = langfuse(
        input='"{\\"args\\": [\\"Q?\\"]}"', output='"\\"A.\\""', userId="u", sessionId="s"
    )
    request = only_record(written(tmp_path, export))
    assert request.trace_id == "b3b7-x"
    assert request.conventions == ["langfuse"]
    assert (request.question, request.answer) == ("Q?", "A.")
    assert (request.user_id, request.conversation_id) == ("u", "s")
    assert (request.input_tokens, request.output_tokens, request.model) == (49, 40, "gpt-4")
    assert request.cost_usd == 0.3
    assert request.latency_ms == 2000
    assert request.llm_calls == 1


def test_a_langfuse_trace_with_several_outermost_steps_is_one_request(tmp_path: Path) -> None:
    export = langfuse(input="Q?", output="A.")
    export["observations"][0]["parentObservationId"] = None
    request = only_record(written(tmp_path, export))
    assert (request.question, request.answer, request.llm_calls) == ("Q?", "A.", 1)
    assert request.latency_ms == 2500
    assert "partial" not in request.flags


def test_an_observation_without_an_id_is_not_lost(tmp_path: Path) -> None:
    export = langfuse()
    del export["observations"][0]["id"]
    request = only_record(written(tmp_path, export))
    assert (request.llm_calls, request.answer) == (1, "A.")


def test_an_export_is_sent_with_ids_that_fit_the_protocol(tmp_path: Path) -> None:
    path = written(tmp_path, langfuse(id="b3b7b128-5664-4f42-9fab-31999da9e2f1"))
    ((kind, body),) = bodies(path)
    spans = decode_traces(body, PROTOBUF).spans
    assert kind == "traces"
    assert {span.trace_id for span in spans} == {"b3b7b12856644f429fab31999da9e2f1"}
    by_name = {span.attributes["langfuse.observation.type"]: span for span in spans}
    assert by_name["generation"].parent_span_id == by_name["span"].span_id
    assert bodies(path) == [(kind, body)]
    assert spans[0].attributes["langfuse.observation.type"] == "generation"


def jaeger() -> dict[str, Any]:
    def tags(**values: Any) -> list[dict[str, Any]]:
        return [{"key": k, "value": v} for k, v in values.items()]

    chat = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": "7"}
    return {
        "traceID": "4A1B2C3D4E5F60718293A4B5C6D7E8F9",
        "processes": {"p1": {"serviceName": "edge", "tags": tags(region="eu")}},
        "spans": [
            {
                "spanID": "01",
                "operationName": "POST /ask",
                "startTime": 1_770_000_000_001_000,
                "duration": 44_000,
                "processID": "p1",
                "tags": [{"key": "span.kind", "value": "server"}],
                "logs": [{"timestamp": 1, "fields": tags(event="exception", level="x")}],
            },
            {
                "spanID": "02",
                "operationName": "chat m",
                "startTime": 1_770_000_000_002_000,
                "duration": 1_000,
                "processID": "p1",
                "references": [{"refType": "CHILD_OF", "spanID": "01"}],
                "tags": [*tags(**chat), {"key": "error", "type": "bool", "value": True}],
            },
        ],
    }


@pytest.mark.parametrize("wrapped", [True, False])
def test_jaeger_times_are_microseconds_and_parents_are_references(
    tmp_path: Path, *, wrapped: bool
) -> None:
    content = {"data": [jaeger()]} if wrapped else jaeger()
    (trace,) = read([written(tmp_path, content)])
    root, chat = trace.spans
    assert trace.trace_id == "4a1b2c3d4e5f60718293a4b5c6d7e8f9"
    assert root.start_ns == 1_770_000_000_001_000_000
    assert root.end_ns == root.start_ns + 44_000_000
    assert (root.kind, root.parent_span_id, chat.parent_span_id) == (2, None, "01")
    assert root.resource == {"service.name": "edge", "region": "eu"}
    assert [event.name for event in root.events] == ["exception"]
    assert chat.status_code == 2
    request = extract(trace)
    assert isinstance(request, RagRequest)
    assert (request.llm_calls, request.input_tokens, request.service) == (1, 7, "edge")
