"""What the OTLP/HTTP receiver refuses, how it says so, and who is let in."""

from __future__ import annotations

import asyncio
import base64
import gzip
import time
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from collector.config import JournalConfig, ReceiveConfig
from collector.errors import Overloaded, PermanentDependencyError, TransientDependencyError
from collector.journal.sqlite import SqliteJournal
from collector.receivers.otlp_http import build_app
from collector.telemetry import Metrics
from tests.fakes.journal import MemoryJournal
from tests.fakes.otlp_bodies import trace_request
from tests.fakes.receiving import JSON, PROTOBUF, HttpReceivers, counted

MIB = 1024 * 1024


@pytest.fixture
async def serve(metrics: Metrics) -> AsyncIterator[HttpReceivers]:
    receivers = HttpReceivers(metrics)
    async with receivers.stack:
        yield receivers


# --- Refusals ---


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
async def test_what_is_no_otlp_is_answered_400_with_a_status_in_the_same_format(
    serve: HttpReceivers, metrics: Metrics, path: str
) -> None:
    journal = MemoryJournal()
    client = await serve(journal)

    as_protobuf = await client.post(path, content=b"\x0a\xff\xff\xff", headers=PROTOBUF)
    as_json = await client.post(path, content=b'{"resourceSpans": [', headers=JSON)

    assert as_protobuf.status_code == as_json.status_code == 400
    assert as_protobuf.headers["content-type"] == "application/x-protobuf"
    status = Status.FromString(as_protobuf.content)
    assert status.code == 3
    assert status.message
    assert as_json.headers["content-type"] == "application/json"
    assert as_json.json()["code"] == 3
    assert as_json.json()["message"]
    assert journal.entries == []
    assert counted(metrics, "refused_requests", transport="http", reason="malformed") == 2


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("x-gzip", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:50]) + gzip.compress(body[50:])),
        ("deflate", zlib.compress),
        ("deflate", lambda body: zlib.compress(body, wbits=-15)),
        ("identity", lambda body: body),
        ("gzip", lambda body: b""),
    ],
    ids=[
        "gzip",
        "gzip in capitals",
        "x-gzip",
        "gzip of two members",
        "deflate",
        "bare deflate",
        "identity",
        "nothing at all",
    ],
)
async def test_compressed_bodies_are_read(
    serve: HttpReceivers, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    body = trace_request(5).SerializeToString()
    content = compress(body)

    response = await client.post(
        "/v1/traces", content=content, headers={**PROTOBUF, "content-encoding": encoding}
    )

    assert response.status_code == 200
    assert [entry.body for entry in journal.entries] == ([body] if content else [])


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
async def test_other_encodings_are_answered_415_with_the_cure(
    serve: HttpReceivers, metrics: Metrics, encoding: str
) -> None:
    client = await serve.in_process(MemoryJournal())

    response = await client.post(
        "/v1/traces", content=b"x", headers={**JSON, "content-encoding": encoding}
    )

    assert response.status_code == 415
    assert "gzip" in response.json()["message"]
    assert counted(metrics, "refused_requests", transport="http", reason="encoding") == 1


@pytest.mark.parametrize(
    "content",
    [b"not gzip at all", gzip.compress(b"\x0a\x00" * 500)[:-9], gzip.compress(b"") + b"rest"],
    ids=["not gzip", "cut short", "with a rest"],
)
async def test_what_is_not_as_compressed_as_it_says_is_answered_400(
    serve: HttpReceivers, content: bytes
) -> None:
    client = await serve.in_process(MemoryJournal())

    response = await client.post(
        "/v1/traces", content=content, headers={**JSON, "content-encoding": "gzip"}
    )

    assert response.status_code == 400
    assert "gzip" in response.json()["message"]


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("identity", bytes(2 * MIB)),
        ("gzip", gzip.compress(bytes(300 * MIB), 1)),
        ("deflate", zlib.compress(bytes(2 * MIB))),
        ("gzip", gzip.compress(bytes(MIB)) + gzip.compress(b"x")),
    ],
    ids=["plain", "a bomb", "deflate", "one byte too many in a second member"],
)
async def test_a_body_over_the_bound_is_answered_413_however_small_it_was_sent(
    serve: HttpReceivers, metrics: Metrics, encoding: str, content: bytes
) -> None:
    client = await serve(MemoryJournal(), max_body_bytes=MIB)

    started = time.perf_counter()
    response = await client.post(
        "/v1/traces", content=content, headers={**JSON, "content-encoding": encoding}
    )

    assert response.status_code == 413
    assert "max_body_bytes" in response.json()["message"]
    assert time.perf_counter() - started < 5
    assert counted(metrics, "refused_requests", transport="http", reason="too_large") == 1


async def test_a_body_over_the_bound_is_refused_when_its_size_is_not_announced(
    serve: HttpReceivers,
) -> None:
    client = await serve(MemoryJournal(), max_body_bytes=MIB)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(64 * 1024)

    response = await client.post("/v1/traces", content=chunks(), headers=PROTOBUF)

    assert response.status_code == 413


async def test_a_full_journal_is_answered_429_with_the_time_to_wait(
    serve: HttpReceivers, metrics: Metrics
) -> None:
    journal = MemoryJournal()
    journal.append_failures = [Overloaded("disk", retry_after_seconds=29.5)]
    client = await serve.in_process(journal)
    body = trace_request(1).SerializeToString()

    response = await client.post("/v1/traces", content=body, headers=PROTOBUF)

    assert response.status_code == 429
    assert response.headers["retry-after"] == "30"
    assert Status.FromString(response.content).code == 8
    assert counted(metrics, "refused_requests", transport="http", reason="disk") == 1
    assert counted(metrics, "spans_received", transport="http") == 0


async def test_the_real_journal_at_its_bound_is_answered_429(
    serve: HttpReceivers, tmp_path: Path
) -> None:
    config = JournalConfig(max_bytes=16 * MIB, min_free_disk_bytes=0)
    journal = await SqliteJournal.open(tmp_path / "journal.db", config)
    client = await serve(journal, max_body_bytes=4 * MIB)
    body = trace_request(1, text="x" * 3 * MIB).SerializeToString()

    statuses = [
        (await client.post("/v1/traces", content=body, headers=PROTOBUF)).status_code
        for _ in range(8)
    ]
    await journal.close()

    assert statuses[:3] == [200, 200, 200]
    assert statuses[-1] == 429
    assert set(statuses) == {200, 429}


@pytest.mark.parametrize(
    "failure",
    [TransientDependencyError("/data/j.db: disk I/O error"), PermanentDependencyError("damaged")],
)
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/signals"])
async def test_a_failing_journal_is_answered_503_without_its_details(
    serve: HttpReceivers, metrics: Metrics, failure: Exception, path: str
) -> None:
    journal = MemoryJournal()
    journal.append_failures = [failure]  # type: ignore[list-item]
    client = await serve.in_process(journal)
    body = trace_request(1).SerializeToString()
    if path == "/v1/signals":
        body = b'{"message_id": "m1", "kind": "copy"}'

    response = await client.post(path, content=body)

    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert b"/data" not in response.content
    assert counted(metrics, "refused_requests", transport="http", reason="unavailable") == 1


async def test_nothing_is_acknowledged_before_it_is_in_the_journal(serve: HttpReceivers) -> None:
    journal = MemoryJournal()
    journal.running.clear()
    client = await serve.in_process(journal)
    body = trace_request(1).SerializeToString()

    post = asyncio.create_task(client.post("/v1/traces", content=body, headers=PROTOBUF))
    await asyncio.sleep(0.2)
    assert not post.done()

    journal.running.set()
    assert (await post).status_code == 200


async def test_a_sender_that_hangs_up_halfway_leaves_nothing_behind(
    serve: HttpReceivers, metrics: Metrics
) -> None:
    journal = MemoryJournal()
    client = await serve(journal)
    body = trace_request(50).SerializeToString()
    _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
    writer.write(body[: len(body) // 2])
    await writer.drain()
    writer.close()
    await writer.wait_closed()

    ok = await client.post("/v1/traces", content=body, headers=PROTOBUF)

    assert ok.status_code == 200
    assert [entry.body for entry in journal.entries] == [body]
    assert counted(metrics, "refused_requests", transport="http", reason="malformed") == 0


async def test_bodies_under_way_share_a_bounded_memory(metrics: Metrics) -> None:
    app = build_app(MemoryJournal(), ReceiveConfig(max_body_bytes=1024), metrics, None)
    statuses: list[int] = []
    gate = asyncio.Event()

    async def post() -> None:
        parts = [bytes(1000), b""]

        async def receive() -> dict[str, Any]:
            if len(parts) == 1:
                await gate.wait()
            body = parts.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(parts)}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope = {"type": "http", "method": "POST", "path": "/v1/metrics", "headers": []}
        await app(scope, receive, send)

    posts = [asyncio.create_task(post()) for _ in range(6)]
    await asyncio.sleep(0.05)
    assert statuses == [429, 429]
    gate.set()
    await asyncio.gather(*posts)
    await post()

    assert statuses == [429, 429, 200, 200, 200, 200, 200]
    assert counted(metrics, "refused_requests", transport="http", reason="memory") == 2


# --- Login and paths ---


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "s3cret",
        "Bearer",
        "Bearer wrong",
        "Basic " + base64.b64encode(b"pk:wrong").decode(),
        "Basic ????",
        "Digest s3cret",
    ],
)
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/signals", "/v1/metrics"])
async def test_a_sender_without_the_token_is_answered_401_with_the_cure(
    serve: HttpReceivers, metrics: Metrics, path: str, authorization: str | None
) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal, token="s3cret")
    headers = JSON if authorization is None else {**JSON, "authorization": authorization}

    response = await client.post(
        path, content=b'{"message_id": "m", "kind": "copy"}', headers=headers
    )

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer" in response.json()["message"]
    assert "s3cret" not in response.text
    assert journal.entries == []
    assert counted(metrics, "refused_requests", transport="http", reason="unauthenticated") == 1


@pytest.mark.parametrize(
    "authorization",
    ["Bearer s3cret", "bearer  s3cret", "Basic " + base64.b64encode(b"pk-lf-1:s3cret").decode()],
)
async def test_a_sender_with_the_token_is_let_in(serve: HttpReceivers, authorization: str) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal, token="s3cret")

    response = await client.post(
        "/v1/traces",
        content=trace_request(1).SerializeToString(),
        headers={**PROTOBUF, "authorization": authorization},
    )

    assert response.status_code == 200
    assert len(journal.entries) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/v1/traces/",
        "/v1/traces/v1/traces",
        "/v1/logs/v1/traces",
        "/api/public/otel/v1/traces",
        "/otlp/v1/traces",
    ],
)
async def test_paths_that_can_only_mean_traces_are_traces(serve: HttpReceivers, path: str) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)

    response = await client.post(
        path, content=trace_request(1).SerializeToString(), headers=PROTOBUF
    )

    assert response.status_code == 200
    assert [entry.kind for entry in journal.entries] == ["otlp_traces"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/trace", "/api/public/traces", "/v2/traces"])
async def test_other_paths_are_answered_404_with_the_right_ones(
    serve: HttpReceivers, metrics: Metrics, path: str
) -> None:
    client = await serve.in_process(MemoryJournal())

    response = await client.post(path, content=b"{}", headers=JSON)

    assert response.status_code == 404
    assert "/v1/traces" in response.json()["message"]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in response.json()["message"]
    assert counted(metrics, "refused_requests", transport="http", reason="not_found") == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS", "DELETE"])
async def test_other_methods_are_answered_405(serve: HttpReceivers, method: str) -> None:
    client = await serve.in_process(MemoryJournal())

    response = await client.request(method, "/v1/traces")

    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert "POST" in response.json()["message"]
