"""OTLP/gRPC as the protocol's own stubs speak it, over real sockets, into both journals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from pydantic import SecretStr

from collector.config import ReceiveConfig
from collector.errors import (
    GroundwatchError,
    Overloaded,
    PermanentDependencyError,
    TransientDependencyError,
)
from collector.ports import Journal
from collector.receivers.otlp_grpc import GrpcReceiver
from collector.telemetry import Metrics
from tests.fakes.journal import MemoryJournal
from tests.fakes.otlp_bodies import log_request, trace_request
from tests.fakes.receiving import counted, journalled

MIB = 1024 * 1024
Serve = Callable[..., Awaitable[Any]]


@pytest.fixture
async def serve(metrics: Metrics) -> AsyncIterator[Serve]:
    """Return a function that serves a journal and gives a channel to it."""
    receivers: list[GrpcReceiver] = []
    channels: list[Any] = []

    async def start(journal: Journal, token: str | None = None, compression: Any = None) -> Any:
        config = ReceiveConfig(max_body_bytes=MIB)
        secret = None if token is None else SecretStr(token)
        receiver = GrpcReceiver(journal, config, metrics, secret)
        port = await receiver.start("127.0.0.1:0")
        receivers.append(receiver)
        channels.append(grpc.aio.insecure_channel(f"127.0.0.1:{port}", compression=compression))
        return channels[-1]

    yield start
    for channel in channels:
        await channel.close()
    for receiver in receivers:
        await receiver.stop()


def trace_stub(channel: Any) -> Any:
    return TraceServiceStub(channel)  # type: ignore[no-untyped-call]


def logs_stub(channel: Any) -> Any:
    return LogsServiceStub(channel)  # type: ignore[no-untyped-call]


async def failure(call: Awaitable[Any]) -> Any:
    """Return the error a call ends with."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value


def retry_seconds(error: Any) -> int | None:
    """Return the delay of the RetryInfo of a failed call, as an exporter reads it."""
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            for detail in Status.FromString(value).details:
                info = RetryInfo()
                if detail.Unpack(info):
                    return int(info.retry_delay.seconds)
    return None


@pytest.mark.parametrize(
    "compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate]
)
async def test_spans_are_in_the_journal_when_the_call_returns(
    journal: Journal, serve: Serve, metrics: Metrics, compression: Any
) -> None:
    stub = trace_stub(await serve(journal, compression=compression))
    request = trace_request(3)

    response = await stub.Export(request)

    assert response == ExportTraceServiceResponse()
    (record,) = await journalled(journal)
    assert record.kind == "otlp_traces"
    assert ExportTraceServiceRequest.FromString(record.body) == request
    assert counted(metrics, "spans_received", transport="grpc") == 3


async def test_log_records_are_taken(journal: Journal, serve: Serve, metrics: Metrics) -> None:
    stub = logs_stub(await serve(journal))

    await stub.Export(log_request(2))

    (record,) = await journalled(journal)
    assert record.kind == "otlp_logs"
    assert counted(metrics, "log_records_received", transport="grpc") == 2


async def test_an_empty_request_is_a_success(journal: Journal, serve: Serve) -> None:
    stub = trace_stub(await serve(journal))

    assert await stub.Export(ExportTraceServiceRequest()) == ExportTraceServiceResponse()
    assert await journalled(journal) == []


async def test_a_body_with_some_bad_spans_is_a_partial_success(
    journal: Journal, serve: Serve, metrics: Metrics
) -> None:
    stub = trace_stub(await serve(journal))

    response = await stub.Export(trace_request(1, without_id=2))

    assert response.partial_success.rejected_spans == 2
    assert response.partial_success.error_message
    assert counted(metrics, "spans_received", transport="grpc") == 1
    assert counted(metrics, "rejected_items", transport="grpc") == 2


async def test_what_is_no_otlp_is_an_invalid_argument(serve: Serve, metrics: Metrics) -> None:
    channel = await serve(MemoryJournal())
    call = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")

    error = await failure(call(b"\x0a\xff\xff\xff"))

    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.details()
    assert counted(metrics, "refused_requests", transport="grpc", reason="malformed") == 1


async def test_an_unknown_method_is_unimplemented(serve: Serve) -> None:
    channel = await serve(MemoryJournal())
    call = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Import")

    assert (await failure(call(b""))).code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("fails_with", "code", "seconds", "reason"),
    [
        (
            Overloaded("journal", retry_after_seconds=6.5),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            7,
            "journal",
        ),
        (
            TransientDependencyError("/data/j.db: disk I/O error"),
            grpc.StatusCode.UNAVAILABLE,
            5,
            "unavailable",
        ),
        (
            PermanentDependencyError("/data/j.db: damaged"),
            grpc.StatusCode.UNAVAILABLE,
            5,
            "unavailable",
        ),
    ],
)
async def test_backpressure_tells_the_exporter_when_to_come_back(
    serve: Serve,
    metrics: Metrics,
    fails_with: GroundwatchError,
    code: Any,
    seconds: int,
    reason: str,
) -> None:
    journal = MemoryJournal()
    journal.append_failures = [fails_with]
    stub = trace_stub(await serve(journal))

    error = await failure(stub.Export(trace_request(1)))

    assert error.code() == code
    assert retry_seconds(error) == seconds
    assert "/data" not in error.details()
    assert counted(metrics, "refused_requests", transport="grpc", reason=reason) == 1
    await stub.Export(trace_request(1))
    assert len(journal.entries) == 1


@pytest.mark.parametrize(
    "metadata", [(), (("authorization", "Bearer wrong"),), (("authorization", "s3cret"),)]
)
async def test_a_sender_without_the_token_is_unauthenticated(
    serve: Serve, metrics: Metrics, metadata: tuple[tuple[str, str], ...]
) -> None:
    journal = MemoryJournal()
    stub = trace_stub(await serve(journal, token="s3cret"))

    error = await failure(stub.Export(trace_request(1), metadata=metadata))

    assert error.code() == grpc.StatusCode.UNAUTHENTICATED
    assert "Authorization: Bearer" in error.details()
    assert "s3cret" not in error.details()
    assert journal.entries == []
    assert counted(metrics, "refused_requests", transport="grpc", reason="unauthenticated") == 1


async def test_a_sender_with_the_token_is_let_in(serve: Serve) -> None:
    journal = MemoryJournal()
    stub = trace_stub(await serve(journal, token="s3cret"))

    await stub.Export(trace_request(1), metadata=(("authorization", "Bearer s3cret"),))

    assert len(journal.entries) == 1


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_a_body_over_the_bound_is_refused_however_small_it_was_sent(
    serve: Serve, compression: Any
) -> None:
    journal = MemoryJournal()
    stub = trace_stub(await serve(journal, compression=compression))

    error = await failure(stub.Export(trace_request(1, text="x" * 2 * MIB)))

    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert retry_seconds(error) is None
    assert journal.entries == []


async def test_nothing_is_acknowledged_before_it_is_in_the_journal(serve: Serve) -> None:
    journal = MemoryJournal()
    journal.running.clear()
    stub = trace_stub(await serve(journal))

    export = asyncio.ensure_future(stub.Export(trace_request(1)))
    await asyncio.sleep(0.2)
    assert not export.done()

    journal.running.set()
    await export


async def test_a_port_in_use_is_named_with_the_cure(metrics: Metrics) -> None:
    first = GrpcReceiver(MemoryJournal(), ReceiveConfig(), metrics, None)
    port = await first.start("127.0.0.1:0")
    second = GrpcReceiver(MemoryJournal(), ReceiveConfig(), metrics, None)

    with pytest.raises(PermanentDependencyError, match=rf"listen\.otlp_grpc: 127\.0\.0\.1:{port}"):
        await second.start(f"127.0.0.1:{port}")

    await second.stop()
    await first.stop()
    await first.stop()
