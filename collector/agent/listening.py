"""Where an agent listens, how commands on its machine find it, and whether its loops turn."""

from __future__ import annotations

import json
import os
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from collector.config import Resolved
from collector.errors import ConfigError
from collector.ports import Store
from collector.server import HttpServer
from collector.telemetry import Metrics
from dashboards.review.login import Door, kept_key

_LOCAL_NAMES = ["localhost", "127.0.0.1", "[::1]"]
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_HEARTBEAT_LIMIT_SECONDS = 30.0


class Urls(NamedTuple):
    """Where a running agent listens; "" where it has no role that does."""

    metrics: str
    otlp_http: str = ""
    otlp_grpc: str = ""
    review: str = ""

    @property
    def in_use(self) -> dict[str, str]:
        """Those that there are, by name."""
        return {name: url for name, url in self._asdict().items() if url}


class Announced:
    """Tells commands on this machine where the running agent answers, and how to know it.

    Its token opens the review, so that the file is for its owner only.
    """

    def __init__(self, data_dir: Path, urls: Urls, agent_id: str, token: str) -> None:
        self._path = announcement(data_dir)
        self._told = {**urls.in_use, "id": agent_id, "token": token}

    def __enter__(self) -> None:
        # In one step, so that nobody reads half of it.
        fresh = self._path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(json.dumps(self._told))
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


def door_of(resolved: Resolved, token: str, store: Store) -> Door:
    """Return who may enter the review: as configured, and commands that know the token.

    Raises:
        ConfigError: the key of sessions can be neither read nor written.
    """
    config, secrets = resolved.config, resolved.secrets
    given = secrets.review_session_key
    file = config.data_dir / "session-key"
    try:
        key = given.get_secret_value() if given else kept_key(file) if config.review.users else ""
    except OSError as err:
        raise ConfigError([f"data_dir: {file} cannot be used: {err.strerror}"]) from err
    own = secrets.review_api_token
    tokens = [token, *([own.get_secret_value()] if own else [])]
    return Door(config.review, tokens, key, _LOCAL_NAMES, store=store)


def allowed_hosts(address: str) -> list[str]:
    """On loopback only local names are answered; elsewhere the login decides."""
    return _LOCAL_NAMES if is_loopback(address) else ["*"]


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
