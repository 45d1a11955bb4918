"""A ClickHouse server's HTTP interface in front of the embedded engine.

As much of it as a client needs: queries with parameters, inserts with a compressed body, errors
with their code. Protocol: https://clickhouse.com/docs/interfaces/http
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import chdb
import lz4.frame  # type: ignore[import-untyped]

_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*$", re.IGNORECASE)
_CODE = re.compile(r"Code: (\d+)\.")


class Engine:
    """One handle to the engine, used by one request at a time."""

    def __init__(self, folder: Path) -> None:
        self._handle = chdb.connect(str(folder))
        self._lock = threading.Lock()

    def run(self, database: str, sql: str, parameters: dict[str, str], body: bytes) -> bytes:
        """Run one statement; the body is the data of an INSERT.

        Raises:
            RuntimeError: the engine's error, with its code in the text.
        """
        found = _FORMAT.search(sql)
        output = found[1] if found else "TabSeparated"
        sql = _FORMAT.sub("", sql)
        with self._lock, tempfile.NamedTemporaryFile() as file:
            if body:
                file.write(body)
                file.flush()
                sql = f"{sql} FROM INFILE '{file.name}' FORMAT {output}"
            self._handle.query(f"USE `{database}`")
            return bytes(self._handle.query(sql, output, params=parameters).bytes())

    def close(self) -> None:
        self._handle.close()


class _Handler(BaseHTTPRequestHandler):
    engine: Engine
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
        parameters = {key[6:]: value for key, value in asked.items() if key.startswith("param_")}
        try:
            result = self.engine.run(asked.get("database", "default"), sql, parameters, data)
        except RuntimeError as err:
            code = _CODE.search(str(err))
            self._send(
                500, str(err).encode(), {"X-ClickHouse-Exception-Code": code[1] if code else "1002"}
            )
            return
        self._send(200, result, {"X-ClickHouse-Timezone": "UTC"})

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


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the engine of `folder` on a free port; yield the URL without a database."""
    engine = Engine(folder)
    handler = type("Handler", (_Handler,), {"engine": engine})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        engine.close()
