"""Senders that stall, and bodies that are small as bytes and huge as values."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Callable

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from collector.config import ReceiveConfig
from collector.receivers.otlp_grpc import TRACES, GrpcReceiver
from collector.telemetry import Metrics
from tests.fakes.journal import MemoryJournal
from tests.fakes.otlp_bodies import trace_request
from tests.fakes.receiving import JSON, PROTOBUF, HttpReceivers, counted

MIB = 1024 * 1024
GZIP = {"content-encoding": "gzip"}


@pytest.fixture
async def serve(metrics: Metrics) -> AsyncIterator[HttpReceivers]:
    receivers = HttpReceivers(metrics)
    async with receivers.stack:
        yield receivers


async def test_senders_that_stall_are_answered_408_and_others_are_served_again(
    serve: HttpReceivers, metrics: Metrics
) -> None:
    serve.body_seconds = 1.0
    journal = MemoryJournal()
    client = await serve(journal, max_body_bytes=MIB)
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MIB
    stalled = []
    for _ in range(4):
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(head + bytes(MIB - 100))
        await writer.drain()
        stalled.append((reader, writer))
    body = trace_request(5, text="x" * 10_000).SerializeToString()

    await asyncio.sleep(0.3)
    full = await client.post("/v1/traces", content=body, headers=PROTOBUF)
    answers = [await reader.read() for reader, _ in stalled]  # to the end: they are hung up on
    again = await client.post("/v1/traces", content=body, headers=PROTOBUF)
    for _, writer in stalled:
        writer.close()

    assert full.status_code == 429
    assert again.status_code == 200
    assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
    assert all(b"receive.body_seconds" in answer for answer in answers)
    assert counted(metrics, "refused_requests", transport="http", reason="too_slow") == 4


async def test_a_grpc_call_without_a_body_ends_and_may_be_tried_again(metrics: Metrics) -> None:
    config = ReceiveConfig(body_seconds=0.2)
    receiver = GrpcReceiver(MemoryJournal(), config, metrics, None)
    port = await receiver.start("127.0.0.1:0")

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.stream_unary(f"/{TRACES}/Export")(never())
        await TraceServiceStub(channel).Export(trace_request(1))  # type: ignore[no-untyped-call]
    await receiver.stop()

    # One of the codes after which an OTLP exporter keeps the body.
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "receive.body_seconds" in str(refused.value.details())
    assert counted(metrics, "refused_requests", transport="grpc", reason="too_slow") == 1
    assert counted(metrics, "spans_received", transport="grpc") == 1


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field in protobuf's wire format."""
    length, head = len(content), bytes([number << 3 | 2])
    while length > 0x7F:
        head += bytes([length & 0x7F | 0x80])
        length >>= 7
    return head + bytes([length]) + content


def _in_a_span(content: bytes) -> bytes:
    ids = _field(1, b"t" * 16) + _field(2, b"s" * 8)
    return _field(1, _field(2, _field(2, ids + content)))


def _spans_with_ids(count: int) -> bytes:
    ids = (n.to_bytes(8, "big") for n in range(1, count + 1))
    return _field(1, _field(2, b"".join(_field(2, _field(1, i + i) + _field(2, i)) for i in ids)))


@pytest.mark.parametrize(
    "body",
    [
        lambda: _field(1, _field(2, b"\x12\x00" * 4 * MIB)),
        lambda: b"\x0a\x00" * 20 * MIB,
        lambda: _in_a_span(b"\x4a\x00" * 20 * MIB),
        lambda: _in_a_span(_field(9, _field(2, _field(5, b"\x0a\x00" * 20 * MIB)))),
        lambda: b"\x10\x00" * 20 * MIB,
        lambda: _spans_with_ids(100_001),
        lambda: b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 2 * MIB + b"{}]}]}]}",
        lambda: b'{"resourceSpans":' + b"[" * 20 * MIB,
    ],
    ids=[
        "empty spans",
        "empty resources",
        "empty attributes",
        "a list of empty values",
        "numbers",
        "too many good spans",
        "empty spans in JSON",
        "brackets",
    ],
)
async def test_a_body_of_millions_of_values_is_answered_413_before_it_is_parsed(
    serve: HttpReceivers, body: Callable[[], bytes]
) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal, max_body_bytes=64 * MIB)
    content = gzip.compress(body(), 1)

    response = await client.post("/v1/traces", content=content, headers={**JSON, **GZIP})

    assert response.status_code == 413
    assert "batches" in response.json()["message"]
    assert journal.entries == []


@pytest.mark.parametrize(
    "body", [bytes(60 * MIB), b"\x28\x30" * 30 * MIB + b"\x0a\x05"], ids=["zeros", "cut short"]
)
async def test_what_is_no_protobuf_is_refused_without_a_walk_to_its_end(
    serve: HttpReceivers, body: bytes
) -> None:
    client = await serve.in_process(MemoryJournal(), max_body_bytes=64 * MIB)
    content = gzip.compress(body, 1)
    started = time.process_time()

    response = await client.post("/v1/traces", content=content, headers={**PROTOBUF, **GZIP})

    assert response.status_code == 400
    assert time.process_time() - started < 10  # a walk took 40 s


async def test_a_large_body_of_real_telemetry_is_taken(serve: HttpReceivers) -> None:
    journal = MemoryJournal(max_bytes=256 * MIB)
    client = await serve.in_process(journal, max_body_bytes=64 * MIB)
    body = trace_request(20_000, text="What does Pro cost?\n" * 100).SerializeToString()

    response = await client.post("/v1/traces", content=body, headers=PROTOBUF)

    assert len(body) > 30 * MIB
    assert response.status_code == 200
    assert [entry.body for entry in journal.entries] == [body]
