"""A TCP proxy that can refuse and delay, to put in front of a server that is to be away."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_CHUNK = 1 << 16


class Proxy:
    """Forwards to `host:port` from a port of its own on the loopback; made by `in_front_of`.

    While it refuses, nobody listens and no connection is left. `delay_seconds` is waited before
    each chunk that goes either way.
    """

    def __init__(self, host: str, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self._target = host, port
        self._loop = loop
        # Never listens: it keeps the port from others while the proxy refuses.
        self._reserved = _bound(0)
        self.address: str = f"127.0.0.1:{self._reserved.getsockname()[1]}"
        self.delay_seconds = 0.0
        self._listening: asyncio.Server | None = None
        self._under_way: set[asyncio.Task[Any]] = set()

    def accept(self) -> None:
        """Take connections."""
        self._do(self._accept())

    def refuse(self) -> None:
        """Cut all connections and refuse new ones."""
        self._do(self._refuse())

    def close(self) -> None:
        """Refuse for good."""
        self.refuse()
        self._reserved.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _accept(self) -> None:
        if self._listening is None:
            own = _bound(self._reserved.getsockname()[1])
            self._listening = await asyncio.start_server(self._forward, sock=own)

    async def _refuse(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        ends = [writer]
        try:
            from_server, to_server = await asyncio.open_connection(*self._target)
            ends.append(to_server)
            await asyncio.gather(self._copy(reader, to_server), self._copy(from_server, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._under_way.discard(task)
            for end in ends:
                end.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK):
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            writer.write(chunk)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()


def _bound(port: int) -> socket.socket:
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    return one


@contextmanager
def in_front_of(url: str) -> Iterator[Proxy]:
    """Yield a proxy that takes connections in front of `http://host:port`."""
    host, _, port = url.removeprefix("http://").partition("/")[0].rpartition(":")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = Proxy(host, int(port), loop)
    try:
        proxy.accept()
        yield proxy
    finally:
        proxy.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
