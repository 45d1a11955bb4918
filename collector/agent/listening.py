"""Where an agent listens, how commands on its machine find it, and whether its loops turn."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from collector.server import HttpServer
from collector.telemetry import Metrics

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_HEARTBEAT_LIMIT_SECONDS = 30.0


class Urls(NamedTuple):
    """Where a running agent listens."""

    otlp_http: str
    otlp_grpc: str
    metrics: str
    review: str


class Announced:
    """Tells commands on this machine where the running agent answers, and how to know it."""

    def __init__(self, data_dir: Path, urls: Urls, agent_id: str) -> None:
        self._path = announcement(data_dir)
        self._told = {**urls._asdict(), "id": agent_id}

    def __enter__(self) -> None:
        # In one step, so that nobody reads half of it.
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self._told))
        fresh.replace(self._path)

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._path.unlink()


def announcement(data_dir: Path) -> Path:
    """Return the file in which a running agent says where it listens."""
    return data_dir / "agent.json"


def serve(stack: AsyncExitStack, app: Any, address: str, name: str) -> HttpServer:
    """Serve an app for as long as the stack is open."""
    server = HttpServer(app, address, name)
    server.start()
    stack.push_async_callback(server.stop)
    return server


def allowed_hosts(address: str) -> list[str]:
    """On loopback only local names are answered; elsewhere a proxy decides."""
    return ["localhost", "127.0.0.1", "[::1]"] if is_loopback(address) else ["*"]


def is_loopback(address: str) -> bool:
    """Say whether only this machine reaches an address, given as host:port."""
    return address.rpartition(":")[0].strip("[]") in _LOOPBACK


def stalled(metrics: Metrics, now: float) -> list[str]:
    """Return the loops that have not turned lately, by Unix time."""
    return [
        sample.labels["loop"]
        for metric in metrics.loop_timestamp.collect()
        for sample in metric.samples
        if now - sample.value > _HEARTBEAT_LIMIT_SECONDS
    ]
