"""From a checked body to a durable entry: what all receivers share, counted by transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, ParamSpec, TypeVar, get_args

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.errors import Overloaded
from collector.model import SignalKind
from collector.otlp import Canonical, canonical_logs, canonical_traces, is_json
from collector.ports import TELEMETRY, Entry, Journal
from collector.receivers.density import MAX_ITEMS, TooManyValues, check_json, check_protobuf
from collector.signals import IGNORED_REASONS, ParsedSignals, signal_entries
from collector.telemetry import Metrics

INLINE_BYTES = 256 * 1024
"""Bodies up to here are read on the event loop; a thread costs more than it saves."""

BODIES_IN_MEMORY = 4
"""Bodies of the largest allowed size that a receiver may hold at once, over all connections."""

RETRY_SECONDS = 5.0
"""When to come back after a failure that says nothing about its length."""

TelemetryKind = Literal["otlp_traces", "otlp_logs"]
_MESSAGES = {"otlp_traces": ExportTraceServiceRequest, "otlp_logs": ExportLogsServiceRequest}
_CANONICAL = {"otlp_traces": canonical_traces, "otlp_logs": canonical_logs}
_P = ParamSpec("_P")
_T = TypeVar("_T")
REFUSALS = (
    "malformed",
    "too_large",
    "too_slow",
    "encoding",
    "unauthenticated",
    "not_found",
    "method",
    "metrics_not_kept",
    "origin",
    "journal",
    "disk",
    "memory",
    "unavailable",
    "internal",
)
"""Every reason an ingest call is refused for, as counted."""


class Intake:
    """Appends what senders bring to the journal and counts it. Returns once it is durable."""

    def __init__(
        self, journal: Journal, metrics: Metrics, transport: Literal["http", "grpc", "kafka"]
    ):
        """Start all counters of this transport at 0, so that a first refusal is an increase."""
        self._journal = journal
        self._metrics = metrics
        self._transport = transport
        # What is read of a large body takes many times its size, so one is read at a time. More
        # would not be faster: the interpreter lock is held throughout.
        self._reading = asyncio.Lock()
        for counter in (
            metrics.spans_received,
            metrics.logs_received,
            metrics.bytes_received,
            metrics.rejected_items,
        ):
            counter.labels(transport)
        for reason in REFUSALS:
            metrics.refused.labels(transport, reason)
        if transport != "grpc":
            for kind in get_args(SignalKind):
                metrics.signals_received.labels(kind)
            for ignored in IGNORED_REASONS:
                metrics.scores_ignored.labels(ignored)

    async def telemetry(
        self, kind: TelemetryKind, body: bytes, content_type: str, key: str = ""
    ) -> Canonical:
        """Append an OTLP body and return what was kept of it and what was not.

        Args:
            kind: what the body is.
            body: the body, decompressed.
            content_type: of the body; "" where only its bytes can tell.
            key: the trace id of all of it, where the sender says so.

        Raises:
            MalformedPayload: the body cannot be read at all.
            TooManyValues: it holds too much to be read.
            Overloaded: the journal is full; nothing was appended.
            DependencyError: the journal failed; a retry may double the body, which is harmless.
        """
        found = await self._read(kind, body, content_type)
        if found.spans:
            await self._journal.append([Entry(TELEMETRY, kind, key, found.body)])
        received = (
            self._metrics.spans_received if kind == "otlp_traces" else self._metrics.logs_received
        )
        received.labels(self._transport).inc(found.spans)
        self._metrics.bytes_received.labels(self._transport).inc(len(body))
        self._metrics.rejected_items.labels(self._transport).inc(found.rejected)
        return found

    async def signals(self, body: bytes, read: Callable[[bytes], ParsedSignals]) -> ParsedSignals:
        """Append a body of signals, one entry for each target. Raises as `telemetry` does.

        Args:
            body: in the words of whichever client.
            read: reads it.
        """
        check_json(body)
        found = await compute(len(body), read, body)
        await self._journal.append(signal_entries(found.signals))
        for signal in found.signals:
            self._metrics.signals_received.labels(signal.kind).inc()
        for reason in found.ignored:
            self._metrics.scores_ignored.labels(reason).inc()
        self._metrics.bytes_received.labels(self._transport).inc(len(body))
        self._metrics.rejected_items.labels(self._transport).inc(len(found.rejected))
        return found

    async def _read(self, kind: TelemetryKind, body: bytes, content_type: str) -> Canonical:
        if len(body) <= INLINE_BYTES:
            return _checked(kind, body, content_type)
        async with self._reading:
            return await asyncio.to_thread(_checked, kind, body, content_type)

    def refused(self, reason: str) -> None:
        """Count a call that was refused for one of `REFUSALS`."""
        self._metrics.refused.labels(self._transport, reason).inc()


def _checked(kind: TelemetryKind, body: bytes, content_type: str) -> Canonical:
    """Read an OTLP body, and refuse what would take too much memory."""
    if is_json(body, content_type):
        check_json(body)
    else:
        check_protobuf(body, _MESSAGES[kind])
    found = _CANONICAL[kind](body, content_type)
    if found.spans > MAX_ITEMS:
        raise TooManyValues(MAX_ITEMS, "spans or log records")
    return found


class BodyMemory:
    """The memory one receiver may spend on bodies under way."""

    def __init__(self, max_body_bytes: int) -> None:
        """Allow for a few bodies of the largest size."""
        self._capacity = BODIES_IN_MEMORY * max_body_bytes
        self._used = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Give out a function that takes bytes of it, all given back at the end.

        The function raises Overloaded where they are not there.
        """
        held = 0

        def take(size: int) -> None:
            nonlocal held
            if self._used + size > self._capacity:
                raise Overloaded("memory", retry_after_seconds=1.0)
            held += size
            self._used += size

        try:
            yield take
        finally:
            self._used -= held


async def compute(size: int, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call a function over `size` bytes: at once, or in a thread where it would hold the loop."""
    if size <= INLINE_BYTES:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
