"""A real HTTP server for what tests make up, in a thread of its own."""

from __future__ import annotations

import socket
import threading
import time
from typing import Self

import uvicorn
from starlette.applications import Starlette

_START_SECONDS = 30


class Served:
    """Serves an app on a free port of the loopback, at `root`. A context manager."""

    def __init__(self, app: Starlette) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.root = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(app, log_config=None, log_level="critical", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(timeout=10)
        self._socket.close()
