"""HTTP servers inside our own event loop and under our own signal handling."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from collector.errors import PermanentDependencyError


class _Uvicorn(uvicorn.Server):
    """uvicorn, leaving signals to the process that runs several servers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """One ASGI app on one address. `port` is the real one where 0 was asked for."""

    def __init__(self, app: Any, address: str, name: str) -> None:
        self._socket = _bind(address, name)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{address.rpartition(':')[0]}:{self.port}"
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                lifespan="off",
                # What a proxy says of its clients is believed where that is configured only.
                proxy_headers=False,
                timeout_graceful_shutdown=1,
                timeout_keep_alive=75,
            )
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve from now on. Connections made before this were queued by the system."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))

    async def stop(self) -> None:
        """Finish what is under way, then close. May be called twice, or without a start."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()


def _bind(address: str, name: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, int(port)))
        sock.listen(2048)
    except OSError as err:
        sock.close()
        raise PermanentDependencyError(
            f"listen.{name}: {address} cannot be used ({err.strerror}); "
            "stop what listens there or set another address"
        ) from err
    sock.setblocking(False)  # noqa: FBT003
    return sock
