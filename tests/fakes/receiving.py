"""Serving the OTLP/HTTP receiver over a real socket, and looking at what it did."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import httpx
from pydantic import SecretStr

from collector.config import ReceiveConfig
from collector.ports import TELEMETRY, Journal, Record
from collector.receivers.otlp_http import OtlpHttpApp, build_app
from collector.server import HttpServer
from collector.telemetry import Metrics
from collector.timing import Clock

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}


class HttpReceivers:
    """Starts receivers for the length of one test. Call it with a journal to get a client."""

    def __init__(
        self, metrics: Metrics, clock: Clock | None = None, cors_origins: Sequence[str] = ()
    ) -> None:
        self.metrics = metrics
        self.clock = clock
        self.cors_origins = list(cors_origins)
        self.body_seconds = 30.0
        self.stack = AsyncExitStack()

    async def __call__(
        self, journal: Journal, token: str | None = None, max_body_bytes: int = 1 << 20
    ) -> httpx.AsyncClient:
        """Return a client over a real socket."""
        server = HttpServer(self._app(journal, token, max_body_bytes), "127.0.0.1:0", "otlp_http")
        server.start()
        self.stack.push_async_callback(server.stop)
        client = httpx.AsyncClient(base_url=server.url, timeout=20, verify=False)
        return await self.stack.enter_async_context(client)

    async def in_process(
        self, journal: Journal, token: str | None = None, max_body_bytes: int = 1 << 20
    ) -> httpx.AsyncClient:
        """Return a client that calls the app itself: quicker, where the wire does not matter."""
        transport = httpx.ASGITransport(self._app(journal, token, max_body_bytes))
        client = httpx.AsyncClient(transport=transport, base_url="http://receiver", timeout=20)
        return await self.stack.enter_async_context(client)

    def _app(self, journal: Journal, token: str | None, max_body_bytes: int) -> OtlpHttpApp:
        config = ReceiveConfig(
            max_body_bytes=max_body_bytes,
            body_seconds=self.body_seconds,
            cors_origins=self.cors_origins,
        )
        secret = None if token is None else SecretStr(token)
        return build_app(journal, config, self.metrics, secret, self.clock)


async def journalled(journal: Journal, topic: str = TELEMETRY) -> list[Record]:
    """Return what a topic of the journal holds, without committing it."""
    consumer = await journal.consumer(topic, "test")
    records = await consumer.poll(1000, 0)
    await consumer.close()
    return records


def counted(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Return the value of a counter, None where it was never touched."""
    return metrics.registry.get_sample_value(f"groundwatch_{name}_total", labels)
