"""A ClickHouse server's HTTP interface in front of the embedded engine.

As much of it as a client needs: queries with parameters and settings, inserts with a compressed
body, errors with their code. Protocol: https://clickhouse.com/docs/interfaces/http

It can take part in two pretences. A user with `readonly` is refused by the engine itself. And as a
server of a cluster of one shard it takes what is said to a cluster, and makes plain tables of it.

`python -m tests.fakes.clickhouse_http FOLDER` serves a folder until it is stopped.
"""

from __future__ import annotations

import argparse
import re
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import chdb
import lz4.frame  # type: ignore[import-untyped]

_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*$", re.IGNORECASE)
_CODE = re.compile(r"Code: (\d+)\.")
_TRANSPORT = re.compile(
    r"database|query|query_id|session_.*|compress|decompress|default_format|wait_end_of_query"
    r"|client_protocol_version|param_.*|send_progress_in_http_headers|enable_http_compression"
    r"|http_headers_progress_interval_ms"
)

Answer = tuple[int, bytes, dict[str, str]]
Fault = Callable[[Callable[[], Answer]], Answer | None]
"""What becomes of an insert: gets what would carry it out, returns the answer, None cuts it off."""


class Engine:
    """One handle to the engine, used by one request at a time."""

    def __init__(
        self,
        folder: Path,
        *,
        readonly: int = 0,
        cluster: str | None = None,
        replicated: bool = True,
    ) -> None:
        self._handle = chdb.connect(str(folder))
        self._lock = threading.Lock()
        self._cluster, self._replicated = cluster, replicated
        if readonly:
            self._handle.query(f"SET readonly = {readonly}")

    def run(
        self,
        database: str,
        sql: str,
        parameters: dict[str, str],
        body: bytes,
        settings: Mapping[str, str],
    ) -> bytes:
        """Run one statement; the body is the data of an INSERT.

        Raises:
            RuntimeError: the engine's error, with its code in the text.
        """
        found = _FORMAT.search(sql)
        output = found[1] if found else "TabSeparated"
        sql = _FORMAT.sub("", sql)
        if self._cluster is not None:
            sql = _alone(sql, self._cluster, replicated=self._replicated)
        with self._lock, tempfile.NamedTemporaryFile() as file:
            if body:
                file.write(body)
                file.flush()
                sql = f"{sql} FROM INFILE '{file.name}' FORMAT {output}"
            self._handle.query(f"USE `{database}`")
            try:
                for name, value in settings.items():
                    self._handle.query(f"SET {name} = '{value}'")
                return bytes(self._handle.query(sql, output, params=parameters).bytes())
            finally:
                for name in settings:
                    self._handle.query(f"SET {name} = DEFAULT")

    def close(self) -> None:
        self._handle.close()


def _alone(sql: str, cluster: str, *, replicated: bool) -> str:
    """Turn what is said to a cluster into what is said to a server."""
    if replicated:
        sql = sql.replace("SELECT engine FROM", "SELECT concat('Replicated', engine) FROM")
    return (
        sql.replace(f" ON CLUSTER `{cluster}`", "")
        .replace("ENGINE = Replicated", "ENGINE = ")
        .replace("system.clusters", f"(SELECT '{cluster}' AS cluster, 1 AS shard_num)")
    )


class _Handler(BaseHTTPRequestHandler):
    engine: Engine
    faults: deque[Fault]
    seen: list[str]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self._body()
        if "multipart/form-data" in self.headers.get("Content-Type", ""):
            asked |= _form(body)
            body = b""
        query = asked.get("query")
        if query is None and body.startswith(b"INSERT "):  # its data follow in the next line
            statement, _, body = body.partition(b"\n")
            query = statement.decode()
        sql, data = (query, body) if query is not None else (body.decode(), b"")
        self.seen.append(sql)

        def carry_out() -> Answer:
            return self._carried_out(sql, asked, data)

        fault = self.faults.popleft() if self.faults and sql.startswith("INSERT ") else None
        answer = carry_out() if fault is None else fault(carry_out)
        if answer is None:
            self.close_connection = True
        else:
            self._send(*answer)

    def _carried_out(self, sql: str, asked: Mapping[str, str], data: bytes) -> Answer:
        parameters = {key[6:]: value for key, value in asked.items() if key.startswith("param_")}
        settings = {k: value for k, value in asked.items() if not _TRANSPORT.fullmatch(k)}
        database = asked.get("database", "default")
        try:
            result = self.engine.run(database, sql, parameters, data, settings)
        except RuntimeError as err:
            code = _CODE.search(str(err))
            headers = {"X-ClickHouse-Exception-Code": code[1] if code else "1002"}
            return 500, str(err).encode(), headers
        return 200, result, {"X-ClickHouse-Timezone": "UTC"}

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            raw = b"".join(self._chunks())
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_packed = self.headers.get("Content-Encoding") == "lz4"
        return b"".join(_frames(raw)) if is_packed else raw

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _frames(packed: bytes) -> Iterator[bytes]:
    """Unpack LZ4 frames that follow each other, one per block of rows."""
    while packed:
        unpacker = lz4.frame.LZ4FrameDecompressor()
        yield unpacker.decompress(packed)
        packed = unpacker.unused_data or b""


def _form(body: bytes) -> dict[str, str]:
    """Read the text fields of a multipart form."""
    boundary = body.partition(b"\r\n")[0]
    fields = {}
    for part in body.split(boundary)[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]+)"', head)
        if name is not None:
            fields[name[1].decode()] = value.removesuffix(b"\r\n").decode()
    return fields


class Served(NamedTuple):
    """A server: its URL without a database, and what tests may see and do."""

    url: str
    faults: deque[Fault]
    seen: list[str]


@contextmanager
def serving(
    folder: Path,
    *,
    readonly: int = 0,
    cluster: str | None = None,
    replicated: bool = True,
    port: int = 0,
) -> Iterator[Served]:
    """Serve the engine of `folder`, on a free port unless one is named.

    Args:
        folder: of the engine.
        readonly: what the setting of this name is for its users.
        cluster: the cluster it pretends to belong to.
        replicated: whether it pretends that its tables are.
        port: where it listens.

    Yields:
        The server. Faults put into it befall the next inserts; the statements are all it was sent.
    """
    engine = Engine(folder, readonly=readonly, cluster=cluster, replicated=replicated)
    faults: deque[Fault] = deque()
    seen: list[str] = []
    members = {"engine": engine, "faults": faults, "seen": seen}
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), members))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{server.server_address[1]}", faults, seen)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        engine.close()


def main() -> None:
    """Serve a folder until SIGTERM or SIGINT; the first line printed is the URL."""
    parser = argparse.ArgumentParser(description="Serve a folder of the engine over HTTP.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cluster", help="pretend to belong to this cluster")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with serving(given.folder, cluster=given.cluster, port=given.port) as served:
        print(served.url, flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
