"""From the journal to the store: decode, assemble, extract, score, decide, write, commit last.

The order of one batch, on which the guarantees rest:

    1  rows are built from the closed traces, merged with what the store knows of them
    2  rows are durably written to the store
    3  judge tasks are durably appended to the journal
    4  the positions of the traces are released; the watermark below them is committed

A crash between any two steps replays from the last commit; rows are idempotent by trace id and
version, tasks by trace id, fingerprint and version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec
import structlog
from tenacity import (
    AsyncRetrying,
    retry_any,
    retry_if_exception_type,
    stop_when_event_set,
    wait_random_exponential,
)

from collector import otlp
from collector.accounting import Accounting
from collector.acks import Acks
from collector.assembler import Assembler, Closed
from collector.config import Config
from collector.errors import (
    MalformedPayload,
    Overloaded,
    PermanentDependencyError,
    TransientDependencyError,
)
from collector.extract import extract
from collector.model import JudgeTask, NotARequest, RagRequest, Signal, StoredRequest, Trace
from collector.ports import JUDGE, Consumer, DeadLetters, Entry, Journal, Known, Record, Store
from collector.redaction import redacted, without_texts
from collector.sampling import decide
from collector.segments import Segmenter
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock

_POLL_RECORDS = 64
_POLL_SECONDS = 0.2
_COMMIT_SECONDS = 0.5
_T = TypeVar("_T")

log = structlog.get_logger()


class LocalScore(NamedTuple):
    """What the free local scorer says: a score in [0, 1], or why there is none to measure."""

    score: float | None
    ineligible: str | None


class _Built(NamedTuple):
    row: StoredRequest
    known: Known | None
    task: JudgeTask | None


class Processor:
    """Consumes telemetry and writes requests with their decisions. One per consumer."""

    def __init__(
        self,
        *,
        consumer: Consumer,
        journal: Journal,
        store: Store,
        score: Callable[[RagRequest], LocalScore],
        dead_letters: DeadLetters,
        accounting: Accounting,
        metrics: Metrics,
        config: Config,
        clock: Clock,
    ) -> None:
        self._consumer = consumer
        self._journal = journal
        self._store = store
        self._score = score
        self._dead_letters = dead_letters
        self._accounting = accounting
        self._metrics = metrics
        self._config = config
        self._clock = clock
        self._assembler = Assembler(config.assembler)
        self._segmenter = Segmenter(config.segments)
        self._acks = Acks()
        # Held while a thread works on the assembler or the acks.
        self._lock = asyncio.Lock()
        self._room = asyncio.Event()
        self._warn = RateLimitedLog()
        metrics.open_traces_capacity.set(config.assembler.max_traces)
        metrics.open_bytes_capacity.set(config.assembler.max_bytes)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish what is open and commit.

        Raises:
            PermanentDependencyError: the store refuses every row; nothing was lost, the records
                wait in the journal.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(stop))
            group.create_task(self._finish(stop))

    async def _read(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._metrics.loop_timestamp.labels("read").set(self._clock.now().timestamp())
            if self._assembler.evicted > 2 * self._config.store.flush_rows:
                # Storing is behind: reading on would only move the backlog into memory.
                await asyncio.sleep(0.02)
                continue
            records = await _patiently(
                lambda: self._consumer.poll(_POLL_RECORDS, _POLL_SECONDS), stop, self._warn
            )
            if records:
                async with self._lock:
                    await asyncio.to_thread(self._take_in, records)

    def _take_in(self, records: Sequence[Record]) -> None:
        for record in records:
            self._acks.read(record.position)
            try:
                traces = record.kind == "otlp_traces"
                decode = otlp.decode_traces if traces else otlp.decode_logs
                telemetry = decode(record.body, "application/x-protobuf")
            except MalformedPayload:
                self._dead_letters.append(record, "malformed")
                self._metrics.dead_letters.labels("malformed").inc()
            else:
                items = len(telemetry.spans) + len(telemetry.logs)
                holders = self._assembler.add(
                    telemetry.spans,
                    telemetry.logs,
                    record.position,
                    len(record.body) // max(items, 1),
                    self._clock.monotonic(),
                )
                for _ in range(holders):
                    self._acks.hold(record.position)
            self._acks.release([record.position])

    async def _finish(self, stop: asyncio.Event) -> None:
        committed_at = self._clock.monotonic()
        while True:
            stopping = stop.is_set()
            async with self._lock:
                closed = (
                    self._assembler.drain()
                    if stopping
                    else self._assembler.due(self._clock.monotonic())
                )
            self._observe()
            size = self._config.store.flush_rows
            for start in range(0, len(closed), size):
                await self._store_batch(closed[start : start + size], stop)
            now = self._clock.monotonic()
            if stopping or closed or now - committed_at >= _COMMIT_SECONDS:
                await self._commit()
                committed_at = now
            if stopping:
                return
            if not closed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _POLL_SECONDS)

    async def _store_batch(self, closed: Sequence[Closed], stop: asyncio.Event) -> None:
        ids = [item.trace.trace_id for item in closed]
        known = await _patiently(lambda: self._store.known(ids), stop, self._warn)
        built = await asyncio.to_thread(self._build, closed, known)
        rows = [
            item.row
            for item in built
            if item.known is None or item.row.version > item.known.version
        ]
        await self._write(rows, stop)
        tasks = [item.task for item in built if item.task is not None]
        if tasks:
            entries = [
                Entry(JUDGE, "judge_task", task.request.trace_id, msgspec.msgpack.encode(task))
                for task in tasks
            ]
            await _patiently(lambda: self._journal.append(entries), stop, self._warn)
        for item in built:
            self._accounting.stored(
                item.row,
                first=item.known is None,
                newly_eligible=_newly_eligible(item.row, item.known),
            )
        now = self._clock.monotonic()
        for item in closed:
            self._metrics.traces_closed.labels(item.trace.closed_by).inc()
            self._metrics.end_to_end.labels("stored").observe(now - item.opened_at)
            if item.trace.spans_dropped:
                self._metrics.spans_dropped.inc(item.trace.spans_dropped)
            if item.late:
                self._metrics.late_traces.inc()
        async with self._lock:
            for item in closed:
                self._acks.release(item.positions)

    def _build(self, closed: Sequence[Closed], known: dict[str, Known]) -> list[_Built]:
        built = []
        for item in closed:
            before = known.get(item.trace.trace_id)
            trace = item.trace
            trace = otlp.merge_traces(
                trace,
                otlp.decode_trace(before.telemetry) if before and before.telemetry else trace,
            )
            outcome = self._build_one(trace, before)
            if isinstance(outcome, NotARequest):
                self._metrics.traces_ignored.labels(outcome.reason).inc()
            else:
                built.append(outcome)
        return built

    def _build_one(self, trace: Trace, known: Known | None) -> _Built | NotARequest:
        request = extract(trace, message_id_attribute=self._config.message_id_attribute)
        if isinstance(request, NotARequest):
            return request
        request = msgspec.structs.replace(request, segment=self._segmenter(request, trace))
        local = self._score(request)
        if known is not None:
            decision = known.decision  # the first decision wins, whatever the config says by now
        else:
            decision = decide(trace, self._config.sampling, self._clock.now())
        content = self._config.store.content
        row = StoredRequest(
            request=_content(request, content),
            version=otlp.version_of(trace),
            decision=decision,
            lexical_score=local.score,
            ineligible=local.ineligible,
            telemetry=otlp.encode_trace(trace) if content == "full" else b"",
        )
        if known is not None and row.version < known.version:
            # What made the stored version is gone; less must not supersede more.
            return _Built(row, known, None)
        task = None
        if decision.sampled and local.ineligible is None:
            task = JudgeTask(
                request=request if content == "none" else row.request,
                version=row.version,
                probability=decision.probability,
                counted=_newly_eligible(row, known),
            )
        return _Built(row, known, task)

    async def _write(self, rows: Sequence[StoredRequest], stop: asyncio.Event) -> None:
        """Write rows; a row that the store refuses for good is set aside, not its neighbours."""
        if not rows:
            return
        try:
            await _patiently(lambda: self._store.write_requests(rows), stop, self._warn)
        except PermanentDependencyError:
            refused = [row for row in rows if not await self._accepts(row, stop)]
            if len(refused) == len(rows):
                raise
            for row in refused:
                log.error("row_refused", trace_id=row.request.trace_id)
                self._metrics.dead_letters.labels("store_refused").inc()

    async def _accepts(self, row: StoredRequest, stop: asyncio.Event) -> bool:
        try:
            await _patiently(lambda: self._store.write_requests([row]), stop, self._warn)
        except PermanentDependencyError:
            return False
        return True

    async def _commit(self) -> None:
        async with self._lock:
            offsets = self._acks.committable()
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except TransientDependencyError:
            self._warn.warning("commit_failed")
        else:
            self._acks.committed(offsets)

    def _observe(self) -> None:
        self._metrics.loop_timestamp.labels("finish").set(self._clock.now().timestamp())
        self._metrics.open_traces.set(len(self._assembler))
        self._metrics.open_bytes.set(self._assembler.open_bytes)


class SignalWriter:
    """Consumes user signals and writes them to the store."""

    def __init__(
        self, consumer: Consumer, store: Store, dead_letters: DeadLetters, metrics: Metrics
    ) -> None:
        self._consumer = consumer
        self._store = store
        self._dead_letters = dead_letters
        self._metrics = metrics
        self._warn = RateLimitedLog()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        while not stop.is_set():
            records = await _patiently(
                lambda: self._consumer.poll(500, _POLL_SECONDS), stop, self._warn
            )
            if not records:
                continue
            signals: list[Signal] = []
            for record in records:
                try:
                    signals += msgspec.json.decode(record.body, type=list[Signal])
                except (msgspec.DecodeError, UnicodeDecodeError):
                    self._dead_letters.append(record, "malformed")
                    self._metrics.dead_letters.labels("malformed").inc()
            if signals:
                await _patiently(lambda: self._store.write_signals(signals), stop, self._warn)
            last = records[-1].position
            await _patiently(
                lambda: self._consumer.commit({last.partition: last.offset + 1}), stop, self._warn
            )


def _newly_eligible(row: StoredRequest, known: Known | None) -> bool:
    return row.ineligible is None and (known is None or known.ineligible is not None)


def _content(request: RagRequest, policy: str) -> RagRequest:
    if policy == "none":
        return without_texts(request)
    return redacted(request) if policy == "redacted" else request


async def _patiently(
    call: Callable[[], Awaitable[_T]], stop: asyncio.Event, warn: RateLimitedLog
) -> _T:
    """Repeat a call for as long as what it needs is down or full, and we are not stopping."""
    async for attempt in AsyncRetrying(
        retry=retry_any(retry_if_exception_type((TransientDependencyError, Overloaded))),
        wait=wait_random_exponential(multiplier=0.1, max=10),
        stop=stop_when_event_set(stop),
        reraise=True,
        before_sleep=lambda state: warn.warning(
            "waiting_for_dependency",
            error=type(state.outcome.exception()).__name__ if state.outcome else "",
        ),
    ):
        with attempt:
            return await call()
    raise AssertionError("unreachable: reraise is set")
