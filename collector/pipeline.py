"""From the journal to the store: decode, assemble, extract, score, decide, write, commit last.

The order of one batch, on which the guarantees rest:

    1  rows are built from the closed traces, merged with what the store knows of them
    2  rows are durably written to the store, and the spans of what is no request yet
    3  judge tasks, and the conversations that have a new turn, are durably appended to the journal
    4  users' complaints that came before a row raise its decision, in a row and a task of its own
    5  the positions of the traces are released; the watermark below them is committed

A crash between any two steps replays from the last commit; rows are idempotent by trace id and
version, tasks by trace id, fingerprint and version. Feedback found in telemetry goes to the journal
like any signal, before the position it came from is released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from collector import otlp
from collector.accounting import Accounting
from collector.acks import Acks
from collector.assembler import Assembler, Closed
from collector.building import Builder, LocalScore
from collector.config import Config
from collector.errors import Overloaded, TransientDependencyError
from collector.inference import conversation_entries
from collector.late_draws import (
    LateDraws,
    task_entry,
)
from collector.model import (
    Decision,
    RagRequest,
)
from collector.pacer import Pacer
from collector.ports import (
    Consumer,
    DeadLetters,
    Journal,
    Position,
    Store,
)
from collector.reading import Reader, Taken
from collector.request_writer import RequestWriter
from collector.sampling import OwnDraw
from collector.set_aside import SetAside, letter_of
from collector.signals import signal_entries
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Patience

_POLL_RECORDS = 64
_POLL_SECONDS = 0.2
_COMMIT_SECONDS = 0.5

log = structlog.get_logger()


class Processor:
    """Consumes telemetry and writes requests with their decisions. One per consumer."""

    def __init__(
        self,
        *,
        consumer: Consumer,
        journal: Journal,
        store: Store,
        score: Callable[[RagRequest], LocalScore],
        foreseen: Callable[[Decision, float | None], Decision],
        dead_letters: DeadLetters,
        accounting: Accounting,
        metrics: Metrics,
        config: Config,
        clock: Clock,
        own_draws: Sequence[OwnDraw] = (),
    ) -> None:
        self._consumer = consumer
        self._journal = journal
        self._store = store
        self._set_aside = SetAside(dead_letters, metrics)
        self._writer = RequestWriter(store, self._set_aside)
        self._accounting = accounting
        self._metrics = metrics
        self._config = config
        self._clock = clock
        self._assembler = Assembler(config.assembler)
        self._pacer = Pacer(store, config.sampling, metrics, clock)
        self._builder = Builder(
            score, foreseen, own_draws, self._pacer, accounting, metrics, config, clock
        )
        self._late_draws = LateDraws(store, journal, self._pacer, config, metrics, clock)
        self._complaints: list[tuple[str, Position]] = []
        self._acks = Acks()
        self._reader = Reader(self._assembler, self._acks, config.receive, metrics, clock)
        # Held while a thread works on the assembler or the acks.
        self._lock = asyncio.Lock()
        # Held while records are taken in, and while traces are stored.
        self._reading, self._storing = asyncio.Lock(), asyncio.Lock()
        self._patiently: Patience | None = None
        consumer.before_letting_go(self.let_go)
        self._warn = RateLimitedLog()
        metrics.open_traces_capacity.set(config.assembler.max_traces)
        metrics.open_bytes_capacity.set(config.assembler.max_bytes)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish what is open and commit.

        Raises:
            PermanentDependencyError: the store refuses every row; nothing was lost, the records
                wait in the journal.
        """
        patiently = self._patiently = Patience(stop, self._waiting)
        try:
            await self._pacer.resume(patiently)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(stop, patiently))
                group.create_task(self._finish(stop, patiently))
                group.create_task(self._pacer.follow(stop, patiently))
        except* (TransientDependencyError, Overloaded):
            # Only raised once stopping: what is not stored waits in the journal.
            log.warning("stopped_with_open_work", positions=len(self._acks))

    def _waiting(self, error: BaseException) -> None:
        self._warn.warning("waiting_for_dependency", error=type(error).__name__)

    async def _read(self, stop: asyncio.Event, patiently: Patience) -> None:
        while not stop.is_set():
            self._metrics.loop_timestamp.labels("read").set(self._clock.now().timestamp())
            if self._behind > 2 * self._config.store.flush_rows:
                # Storing is behind: reading on would only move the backlog into memory.
                await asyncio.sleep(0.02)
                continue
            async with self._reading:
                records = await patiently(self._consumer.poll, _POLL_RECORDS, _POLL_SECONDS)
                if records:
                    async with self._lock:
                        taken = await asyncio.to_thread(self._reader.take_in, records)
                        self._complaints += taken.complaints
                    await self._pass_on(taken, patiently)

    @property
    def _behind(self) -> int:
        """What is read and waits to be stored, with no more to come."""
        return self._assembler.evicted + len(self._complaints)

    async def _pass_on(self, taken: Taken, patiently: Patience) -> None:
        """Append feedback to the journal, set aside what is unreadable, then let both go."""
        if taken.told:
            signals = [signal for one in taken.told for signal in one.signals]
            await patiently(self._journal.append, signal_entries(signals))
        for record, reason in taken.unreadable:
            await self._set_aside([record], reason, patiently)
        done = [one.position for one in taken.told]
        done += [record.position for record, _ in taken.unreadable]
        if done:
            async with self._lock:
                self._acks.release(done)

    async def _finish(self, stop: asyncio.Event, patiently: Patience) -> None:
        committed_at = self._clock.monotonic()
        while True:
            stopping = stop.is_set()
            async with self._storing:
                async with self._lock:
                    closed = (
                        self._assembler.drain()
                        if stopping
                        else self._assembler.due(self._clock.monotonic())
                    )
                self._observe()
                complaints = await self._store_closed(closed, patiently)
                now = self._clock.monotonic()
                if stopping or closed or complaints or now - committed_at >= _COMMIT_SECONDS:
                    await self._commit()
                    committed_at = now
            if stopping:
                return
            if not closed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _POLL_SECONDS)

    async def let_go(self, partitions: set[int]) -> None:
        """Store what is open of partitions that another process takes over, and forget them.

        As at a shutdown, what is stored so early grows by what the other process reads.

        Raises:
            TransientDependencyError, Overloaded: only once stopping.
        """
        async with self._reading, self._storing:
            async with self._lock:
                closed = self._assembler.drain(partitions)
            if self._patiently is not None:
                await self._store_closed(closed, self._patiently)
                await self._commit()
            async with self._lock:
                self._acks.forget(partitions)

    async def _store_closed(self, closed: Sequence[Closed], patiently: Patience) -> int:
        """Store traces, batch by batch, then answer complaints; return how many these were."""
        size = self._config.store.flush_rows
        for start in range(0, len(closed), size):
            await self._store_batch(closed[start : start + size], patiently)
        return await self._answer_complaints(patiently)

    async def _answer_complaints(self, patiently: Patience) -> int:
        """Look again at stored requests that signals may be about; return how many."""
        async with self._lock:
            complaints, self._complaints = self._complaints, []
        await self._late_draws.of_traces([trace_id for trace_id, _ in complaints], patiently)
        async with self._lock:
            self._acks.release([position for _, position in complaints])
        return len(complaints)

    async def _store_batch(self, closed: Sequence[Closed], patiently: Patience) -> None:
        known = await patiently(self._store.known, [item.trace.trace_id for item in closed])
        unknown = [item.trace.trace_id for item in closed if item.trace.trace_id not in known]
        fragments = await patiently(self._store.fragments, unknown)
        outcome = await asyncio.to_thread(self._builder.build, closed, known, fragments)
        await self._set_aside(
            [letter_of(trace.trace_id, otlp.encode_trace(trace)) for trace in outcome.faulty],
            "internal",
            patiently,
        )
        built = outcome.built
        told = {item.row.request.trace_id for item in built}
        await patiently(self._store.keep_fragments, outcome.fragments)
        refused = await self._writer.write([item.row for item in built if item.is_news], patiently)
        built = [item for item in built if item.row.request.trace_id not in refused]
        # Again after a replay: between writing rows and appending these a process may have died.
        entries = [task_entry(task) for item in built for task in item.tasks]
        if self._config.implicit.enabled:
            entries += conversation_entries(item.row for item in built if not item.is_outdated)
        if entries:
            await patiently(self._journal.append, entries)
        for item in built:
            self._accounting.stored(
                item.row,
                first=item.known is None,
                newly_eligible=item.newly_eligible,
                scored_before=item.known.decision.scorer_probability if item.known else (),
            )
        # Signals may have come before their request: they could not find it, so it finds them.
        await self._late_draws.of_rows([item.row for item in built], patiently)
        self._count_closed(closed)
        async with self._lock:
            for trace in closed:
                if trace.trace.closed_by != "shutdown" or trace.trace.trace_id in told:
                    self._acks.release(trace.positions)
                # Else the rest is still to come, and only the journal knows the beginning.

    def _count_closed(self, closed: Sequence[Closed]) -> None:
        now = self._clock.monotonic()
        for item in closed:
            self._metrics.traces_closed.labels(item.trace.closed_by).inc()
            self._metrics.end_to_end.labels("stored").observe(now - item.opened_at)
            self._metrics.spans_dropped.inc(item.trace.spans_dropped)
            self._metrics.late_traces.inc(item.late)

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
