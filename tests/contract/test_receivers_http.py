"""OTLP/HTTP as real clients speak it, over real sockets, into both journals."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult

from collector.config import ReceiveConfig
from collector.errors import Overloaded, TransientDependencyError
from collector.model import Signal
from collector.ports import SIGNALS, Journal
from collector.receivers.otlp_http import build_app
from collector.telemetry import Metrics
from tests.fakes.journal import MemoryJournal
from tests.fakes.otlp_bodies import log_request, trace_request
from tests.fakes.receiving import JSON, PROTOBUF, HttpReceivers, counted, journalled

MIB = 1024 * 1024


@pytest.fixture
async def serve(metrics: Metrics) -> AsyncIterator[HttpReceivers]:
    receivers = HttpReceivers(metrics)
    async with receivers.stack:
        yield receivers


# --- Real exporters ---


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
async def test_the_sdks_exporter_delivers_spans_into_the_journal(
    journal: Journal, serve: HttpReceivers, metrics: Metrics, compression: Compression
) -> None:
    client = await serve(journal)
    endpoint = f"{client.base_url}/v1/traces"

    def work() -> None:
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=endpoint, compression=compression)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("assistant").start_as_current_span("answer"):
            pass
        provider.shutdown()

    await asyncio.to_thread(work)

    (record,) = await journalled(journal)
    assert record.kind == "otlp_traces"
    request = ExportTraceServiceRequest.FromString(record.body)
    assert request.resource_spans[0].scope_spans[0].spans[0].name == "answer"
    assert counted(metrics, "spans_received", transport="http") == 1


async def test_the_sdks_exporter_retries_when_told_to_wait_and_loses_nothing(
    serve: HttpReceivers,
) -> None:
    journal = MemoryJournal()
    journal.append_failures = [
        Overloaded("journal", retry_after_seconds=0.1),
        TransientDependencyError("disk I/O error"),
    ]
    client = await serve(journal)
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{client.base_url}/v1/traces", timeout=30)
    span = provider.get_tracer("assistant").start_span("answer")
    span.end()

    result = await asyncio.to_thread(exporter.export, [span])  # type: ignore[list-item]
    exporter.shutdown()  # type: ignore[no-untyped-call]

    assert result == SpanExportResult.SUCCESS
    assert len(journal.entries) == 1


@pytest.mark.shared
@pytest.mark.parametrize(
    ("body", "headers", "path", "kind"),
    [
        ("wire-python-exporter-traces.body.pb", PROTOBUF, "/v1/traces", "otlp_traces"),
        (
            "wire-python-exporter-traces.body.pb.gz",
            {**PROTOBUF, "content-encoding": "gzip"},
            "/v1/traces",
            "otlp_traces",
        ),
        ("wire-js-exporter-traces.body.json", JSON, "/v1/traces", "otlp_traces"),
        ("wire-python-exporter-logs.body.pb", PROTOBUF, "/v1/logs", "otlp_logs"),
    ],
)
async def test_recorded_bodies_of_python_and_javascript_exporters_are_taken(
    journal: Journal,
    serve: HttpReceivers,
    shared: Path,
    body: str,
    headers: dict[str, str],
    path: str,
    kind: str,
) -> None:
    client = await serve(journal)
    content = (shared / "traces/captured/otlp" / body).read_bytes()

    response = await client.post(path, content=content, headers=headers)

    assert response.status_code == 200
    (record,) = await journalled(journal)
    assert record.kind == kind
    if kind == "otlp_traces":
        assert ExportTraceServiceRequest.FromString(record.body).resource_spans
    else:
        assert ExportLogsServiceRequest.FromString(record.body).resource_logs


# --- Formats ---


async def test_protobuf_is_answered_in_protobuf_with_an_empty_message(
    journal: Journal, serve: HttpReceivers
) -> None:
    client = await serve(journal)
    body = trace_request(3).SerializeToString()

    response = await client.post("/v1/traces", content=body, headers=PROTOBUF)

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/x-protobuf"
    assert response.content == b""
    assert [record.body for record in await journalled(journal)] == [body]


async def test_json_is_answered_in_json_and_kept_as_protobuf(
    journal: Journal, serve: HttpReceivers
) -> None:
    client = await serve(journal)
    request = MessageToDict(trace_request(2))
    for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId"):  # OTLP writes ids in hex, protobuf's JSON in base64
            span[key] = base64.b64decode(span[key]).hex()

    response = await client.post(
        "/v1/traces",
        content=json.dumps(request),
        headers={"content-type": "application/json; charset=utf-8"},
    )

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {}
    (record,) = await journalled(journal)
    kept = ExportTraceServiceRequest.FromString(record.body).resource_spans[0].scope_spans[0].spans
    assert [span.name for span in kept] == ["step 0", "step 1"]
    assert kept[0].trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/octet-stream", "application/protobuf"]
)
async def test_missing_and_odd_content_types_do_not_matter(
    serve: HttpReceivers, content_type: str | None
) -> None:
    journal = MemoryJournal()
    client = await serve(journal)
    headers = {} if content_type is None else {"content-type": content_type}

    as_protobuf = await client.post(
        "/v1/traces", content=trace_request(1).SerializeToString(), headers=headers
    )
    as_json = await client.post("/v1/traces", content=b'{"resourceSpans": []}', headers=headers)

    assert as_protobuf.status_code == as_json.status_code == 200
    assert as_protobuf.headers["content-type"] == "application/x-protobuf"
    assert len(journal.entries) == 1


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])
@pytest.mark.parametrize(("headers", "empty"), [(PROTOBUF, b""), (JSON, b"{}")])
async def test_an_empty_request_is_a_success_that_leaves_nothing_behind(
    journal: Journal, serve: HttpReceivers, path: str, headers: dict[str, str], empty: bytes
) -> None:
    client = await serve(journal)

    response = await client.post(path, content=empty, headers=headers)

    assert response.status_code == 200
    assert response.content == empty
    assert await journalled(journal) == []


async def test_logs_are_taken_and_counted(
    journal: Journal, serve: HttpReceivers, metrics: Metrics
) -> None:
    client = await serve(journal)
    body = log_request(2).SerializeToString()

    response = await client.post("/v1/logs", content=body, headers=PROTOBUF)

    assert response.status_code == 200
    (record,) = await journalled(journal)
    assert (record.kind, record.body) == ("otlp_logs", body)
    assert counted(metrics, "log_records_received", transport="http") == 2


async def test_metrics_are_accepted_counted_and_not_kept(
    journal: Journal, serve: HttpReceivers, metrics: Metrics
) -> None:
    client = await serve(journal)

    response = await client.post("/v1/metrics", content=b"\x0a\x02\x12\x00", headers=PROTOBUF)

    assert (response.status_code, response.content) == (200, b"")
    assert await journalled(journal) == []
    assert counted(metrics, "refused_requests", transport="http", reason="metrics_not_kept") == 1


async def test_a_body_with_some_bad_spans_is_a_partial_success_in_protobuf(
    journal: Journal, serve: HttpReceivers, metrics: Metrics
) -> None:
    client = await serve(journal)
    body = trace_request(2, without_id=3).SerializeToString()

    response = await client.post("/v1/traces", content=body, headers=PROTOBUF)

    assert response.status_code == 200
    partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert partial.rejected_spans == 3
    assert partial.error_message
    (record,) = await journalled(journal)
    kept = ExportTraceServiceRequest.FromString(record.body).resource_spans[0].scope_spans[0].spans
    assert len(kept) == 2
    assert counted(metrics, "spans_received", transport="http") == 2
    assert counted(metrics, "rejected_items", transport="http") == 3


async def test_a_body_with_some_bad_spans_is_a_partial_success_in_json(
    journal: Journal, serve: HttpReceivers
) -> None:
    client = await serve(journal)
    spans = [{"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7"}, {}]
    body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}

    response = await client.post("/v1/traces", json=body)

    assert response.status_code == 200
    partial = response.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert partial["errorMessage"]


# --- Signals ---


async def test_a_signal_is_taken_and_kept_with_its_meaning(
    journal: Journal, serve: HttpReceivers, metrics: Metrics
) -> None:
    client = await serve(journal)

    response = await client.post(
        "/v1/signals", json={"message_id": "m1", "kind": "rating", "value": 0, "user_id": "u"}
    )

    assert response.status_code == 200
    assert response.json() == {"accepted": 1, "rejected": []}
    (record,) = await journalled(journal, SIGNALS)
    assert (record.kind, record.key) == ("signals", "m1")
    (signal,) = msgspec.json.decode(record.body, type=list[Signal])
    assert (signal.message_id, signal.value, signal.sentiment) == ("m1", 0.0, -1)
    assert counted(metrics, "signals_received", kind="rating") == 1
    assert counted(metrics, "signals_received", kind="copy") == 0


async def test_signals_about_one_target_stay_together(
    journal: Journal, serve: HttpReceivers
) -> None:
    client = await serve(journal)
    body = [
        {"message_id": "m1", "kind": "copy"},
        {"message_id": "m2", "kind": "copy"},
        {"message_id": "m1", "kind": "thumbs_up"},
    ]

    response = await client.post("/v1/signals", json=body)

    assert response.json()["accepted"] == 3
    records = await journalled(journal, SIGNALS)
    assert [record.key for record in records] == ["m1", "m2"]


async def test_good_signals_are_taken_beside_bad_ones(
    journal: Journal, serve: HttpReceivers, metrics: Metrics
) -> None:
    client = await serve(journal)

    response = await client.post(
        "/v1/signals", json=[{"message_id": "m1", "kind": "copy"}, {"kind": "copy"}]
    )

    assert response.status_code == 200
    assert response.json()["accepted"] == 1
    (problem,) = response.json()["rejected"]
    assert problem.startswith("[1] trace_id: missing")
    assert len(await journalled(journal, SIGNALS)) == 1
    assert counted(metrics, "rejected_items", transport="http") == 1


@pytest.mark.parametrize("content_type", ["application/json", "text/plain;charset=UTF-8", ""])
async def test_a_body_of_bad_signals_only_is_answered_400(
    serve: HttpReceivers, metrics: Metrics, content_type: str
) -> None:
    client = await serve(MemoryJournal())

    response = await client.post(
        "/v1/signals", content=b'[{"kind": "like"}]', headers={"content-type": content_type}
    )

    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert "thumbs_up" in response.json()["message"]
    assert counted(metrics, "refused_requests", transport="http", reason="malformed") == 1


async def test_all_counters_of_the_transport_start_at_zero(metrics: Metrics) -> None:
    build_app(MemoryJournal(), ReceiveConfig(), metrics, None)

    for name in ("spans_received", "log_records_received", "received_bytes", "rejected_items"):
        assert counted(metrics, name, transport="http") == 0
    for reason in ("journal", "disk", "malformed", "unauthenticated", "too_large"):
        assert counted(metrics, "refused_requests", transport="http", reason=reason) == 0
