"""Telemetry out of files: OTLP JSON and protobuf, JSON lines, gzip, Langfuse, Jaeger."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from collector import otlp
from collector.errors import MalformedPayload
from collector.model import LogRecord, Span, Trace
from collector.trace_files import jaeger, langfuse
from collector.trace_files.encode import body_of_spans

__all__ = ["bodies", "read"]

Kind = Literal["traces", "logs"]

_JSON = "application/json"
_PROTOBUF = "application/x-protobuf"
_MAX_BYTES = 1 << 30
_NOT_TELEMETRY = "content: not telemetry; give OTLP, a Langfuse export or Jaeger JSON"


def read(paths: Sequence[Path], logs_paths: Sequence[Path] = ()) -> list[Trace]:
    """Return the traces found in files, whole, in order of their start.

    Spans of one trace may lie in several files. Log records join the spans of their trace.

    Raises:
        MalformedPayload: a file holds no telemetry; the message names the file and the cure.
        OSError: a file cannot be read.
    """
    spans: dict[str, list[Span]] = {}
    logs: dict[str, list[LogRecord]] = {}
    for path in (*paths, *logs_paths):
        for part in _parts(path):
            for span in part.spans:
                spans.setdefault(span.trace_id, []).append(span)
            for record in part.logs:
                if record.trace_id is not None:
                    logs.setdefault(record.trace_id, []).append(record)
    traces = [
        otlp.collect_trace(trace_id, spans.get(trace_id, []), logs.get(trace_id, []))
        for trace_id in spans.keys() | logs.keys()
    ]
    return sorted(traces, key=lambda trace: (_start_ns(trace), trace.trace_id))


def bodies(path: Path) -> list[tuple[Kind, bytes]]:
    """Return the content of a file as OTLP protobuf bodies, ready to be sent.

    Ids of exports that OTLP has no room for are replaced by a hash, the same in every run.

    Raises:
        MalformedPayload: the file holds no telemetry; the message names the file and the cure.
        OSError: the file cannot be read.
    """
    found: list[tuple[Kind, bytes]] = []
    for part in _parts(path):
        if part.exported:
            found.append(("traces", body_of_spans(part.spans)))
        elif part.kind is not None:
            found.append((part.kind, part.body))
    return found


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """One request or export of a file; `body` is its OTLP protobuf form unless `exported`."""

    spans: list[Span] = []
    logs: list[LogRecord] = []
    kind: Kind | None = None
    body: bytes = b""
    exported: bool = False


def _start_ns(trace: Trace) -> int:
    return min((span.start_ns for span in trace.spans if span.start_ns), default=0)


def _parts(path: Path) -> Iterator[_Part]:
    try:
        data = _unpacked(path.read_bytes())
        found = 0
        for value in _values(data):
            for part in _of_json(value):
                found += 1
                yield part
        if not found:
            yield _of_protobuf(data)
    except MalformedPayload as err:
        raise MalformedPayload(f"{path.name}: {err}") from None


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = unpacker.decompress(data, _MAX_BYTES)
    except zlib.error:
        raise MalformedPayload("gzip: the data is damaged; copy the file again") from None
    if unpacker.unconsumed_tail:
        raise MalformedPayload("gzip: more than 1 GiB unpacked; split the file")
    if not unpacker.eof:
        raise MalformedPayload("gzip: the end is missing; copy the file again")
    return plain


def _values(data: bytes) -> Iterator[Any]:
    """Yield the JSON values of a file, one or one a line; nothing if it is not JSON."""
    if not data[:64].removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"[")):
        return
    lines = data.splitlines()
    try:
        values = [otlp.parse_json(data)]
    except MalformedPayload:
        if data[:1] == b"\n" and not _is_json(lines[1]):
            return
        if len(lines) < 2 or not _is_json(lines[0]):
            raise
        values = [_line(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    yield from values


def _is_json(line: bytes) -> bool:
    try:
        otlp.parse_json(line)
    except MalformedPayload:
        return False
    return True


def _line(number: int, line: bytes) -> Any:
    try:
        return otlp.parse_json(line)
    except MalformedPayload as err:
        raise MalformedPayload(f"line {number}: {err}") from None


def _of_json(value: Any) -> Iterator[_Part]:
    if isinstance(value, list):
        for item in value:
            yield from _of_json(item)
        return
    if not isinstance(value, dict):
        raise MalformedPayload(
            "content: not telemetry; give OTLP, a Langfuse export or Jaeger JSON"
        )
    otlp_kinds = [kind for kind, keys in _OTLP_KEYS if any(key in value for key in keys)]
    for kind in otlp_kinds:
        yield _of_otlp(kind, json.dumps(value).encode(), _JSON)
    if otlp_kinds:
        return
    if langfuse.recognises(value):
        yield _Part(spans=langfuse.spans_of(value), exported=True)
    elif jaeger.recognises(value):
        yield _Part(spans=jaeger.spans_of(value), exported=True)
    else:
        raise MalformedPayload(
            "content: not telemetry; give OTLP, a Langfuse export or Jaeger JSON"
        )


_OTLP_KEYS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("traces", ("resourceSpans", "resource_spans")),
    ("logs", ("resourceLogs", "resource_logs")),
)


def _of_protobuf(data: bytes) -> _Part:
    """Read an export request of either kind: the one whose items make sense."""
    for kind in ("traces", "logs"):
        try:
            part = _of_otlp(kind, data, _PROTOBUF)
        except MalformedPayload:
            continue
        if part.spans or part.logs:
            return part
    raise MalformedPayload(_NOT_TELEMETRY)


def _of_otlp(kind: Kind, data: bytes, content_type: str) -> _Part:
    if kind == "traces":
        body = otlp.canonical_traces(data, content_type).body
        return _Part(spans=otlp.decode_traces(body, _PROTOBUF).spans, kind=kind, body=body)
    body = otlp.canonical_logs(data, content_type).body
    return _Part(logs=otlp.decode_logs(body, _PROTOBUF).logs, kind=kind, body=body)
