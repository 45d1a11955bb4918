"""Assembles spans and log records into traces, in bounded memory, in any order.

There is no end marker in OpenTelemetry. A trace is closed once its root span has ended and
nothing more came for `quiet_seconds`; without such a root after `rootless_seconds`. Closing
early is never a loss: spans that come later open the trace again, with what was there before,
and the fuller trace supersedes the earlier one.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterable
from typing import Literal, NamedTuple

from collector.config import AssemblerConfig
from collector.model import LogRecord, Span, Trace
from collector.ports import Position

ClosedBy = Literal["root", "idle", "evicted", "shutdown"]

_ITEM_BYTES = 1024
"""Memory of a span or record beside its content, roughly; tiny spans take little but this."""


class Closed(NamedTuple):
    """A trace to process now, and the journal positions that wait for it.

    `late` says that the trace had been closed before and has grown since; `opened_at` is when
    the first of it was read, monotonic seconds.
    """

    trace: Trace
    positions: list[Position]
    late: bool
    opened_at: float


class _Open:
    """A trace being assembled. `size` is its memory in bytes, roughly."""

    def __init__(self, now: float) -> None:
        self.spans: list[Span] = []
        self.logs: list[LogRecord] = []
        self.positions: list[Position] = []
        self.rooted = False
        self.late = False
        self.dropped = 0
        self.size = 0
        self.first_at = now
        self.due_at = now
        self.queued_at = math.inf  # when its live heap entry comes up


class Assembler:
    """Buffer of open traces, and a smaller memory of recently closed ones.

    Not thread-safe. Times are seconds of a monotonic clock, given by the caller.
    """

    def __init__(self, config: AssemblerConfig) -> None:
        self._config = config
        # Both lose their oldest entries, which a plain dict finds ever more slowly.
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._recent: OrderedDict[str, _Open] = OrderedDict()
        self._heap: list[tuple[float, str]] = []
        self._ready: list[Closed] = []
        self._recent_bytes = 0
        self.open_bytes = 0

    def __len__(self) -> int:
        """Open traces."""
        return len(self._open)

    @property
    def evicted(self) -> int:
        """Traces closed by a bound that `due` has not yet returned."""
        return len(self._ready)

    def add(
        self,
        spans: Iterable[Span],
        logs: Iterable[LogRecord],
        position: Position,
        item_bytes: int,
        now: float,
    ) -> int:
        """Add what one journal record held.

        Args:
            spans: spans of any number of traces.
            logs: log records; those without a trace id are not taken.
            position: where the record lies in the journal.
            item_bytes: encoded bytes per span or record, for the memory bound.
            now: monotonic seconds.

        Returns:
            How many traces now hold `position`. They release it through `Closed.positions`.
        """
        touched: set[str] = set()
        for span in spans:
            opened = self._opened(span.trace_id, now)
            if len(opened.spans) >= self._config.max_spans_per_trace:
                opened.dropped += 1
            else:
                opened.spans.append(span)
                opened.rooted = opened.rooted or _ends_the_trace(span)
                self._grow(opened, item_bytes)
            touched.add(span.trace_id)
        for record in logs:
            if record.trace_id is None:
                continue
            opened = self._opened(record.trace_id, now)
            if len(opened.logs) >= self._config.max_spans_per_trace:
                opened.dropped += 1
            else:
                opened.logs.append(record)
                self._grow(opened, item_bytes)
            touched.add(record.trace_id)
        for trace_id in touched:
            self._open[trace_id].positions.append(position)
            self._set_due(trace_id, now)
        self._evict()
        return len(touched)

    def due(self, now: float) -> list[Closed]:
        """Close and return the traces that are complete by now, and those evicted since."""
        while self._heap and self._heap[0][0] <= now:
            queued_at, trace_id = heapq.heappop(self._heap)
            opened = self._open.get(trace_id)
            if opened is None or opened.queued_at != queued_at:
                continue  # closed meanwhile, or an entry that an earlier one has replaced
            opened.queued_at = math.inf
            if opened.due_at > now:
                self._queue(trace_id, opened)
            else:
                self._close(trace_id, "root" if opened.rooted else "idle")
        ready, self._ready = self._ready, []
        return ready

    def drain(self, partitions: set[int] | None = None) -> list[Closed]:
        """Close and return everything, for a shutdown; or what came from some partitions."""
        for trace_id, opened in list(self._open.items()):
            if partitions is None or any(p.partition in partitions for p in opened.positions):
                self._close(trace_id, "shutdown")
        ready, self._ready = self._ready, []
        return ready

    def _opened(self, trace_id: str, now: float) -> _Open:
        opened = self._open.get(trace_id)
        if opened is not None:
            return opened
        opened = self._recent.pop(trace_id, None)
        if opened is None:
            opened = _Open(now)
        else:
            self._recent_bytes -= opened.size
            self.open_bytes += opened.size
            opened.late = True
            opened.first_at = now
            opened.positions = []
            opened.queued_at = math.inf
        self._open[trace_id] = opened
        return opened

    def _set_due(self, trace_id: str, now: float) -> None:
        opened = self._open[trace_id]
        config = self._config
        wait = config.quiet_seconds if opened.rooted else config.rootless_seconds
        opened.due_at = min(now + wait, opened.first_at + config.max_open_seconds)
        self._queue(trace_id, opened)

    def _queue(self, trace_id: str, opened: _Open) -> None:
        """Have the trace looked at when it is due, unless that happens earlier anyway."""
        if opened.due_at < opened.queued_at:
            opened.queued_at = opened.due_at
            heapq.heappush(self._heap, (opened.due_at, trace_id))

    def _grow(self, opened: _Open, item_bytes: int) -> None:
        size = item_bytes + _ITEM_BYTES
        opened.size += size
        self.open_bytes += size

    def _evict(self) -> None:
        """Close the oldest traces while a bound is exceeded."""
        while self._open and (
            len(self._open) > self._config.max_traces or self.open_bytes > self._config.max_bytes
        ):
            self._close(next(iter(self._open)), "evicted")

    def _close(self, trace_id: str, closed_by: ClosedBy) -> None:
        opened = self._open.pop(trace_id)
        self.open_bytes -= opened.size
        trace = Trace(
            trace_id=trace_id,
            spans=list(opened.spans),
            logs=list(opened.logs),
            closed_by=closed_by,
            spans_dropped=opened.dropped,
        )
        self._ready.append(Closed(trace, opened.positions, opened.late, opened.first_at))
        self._recent[trace_id] = opened
        self._recent_bytes += opened.size
        while (
            self._recent_bytes > self._config.max_bytes // 4
            or len(self._recent) > self._config.max_traces
        ):
            _, oldest = self._recent.popitem(last=False)
            self._recent_bytes -= oldest.size


def _ends_the_trace(span: Span) -> bool:
    """Tell whether a span is a root that has ended; some senders report one when it starts.

    One without any times says nothing about that, and counts as ended.
    """
    return span.parent_span_id is None and (span.end_ns is not None or span.start_ns is None)
