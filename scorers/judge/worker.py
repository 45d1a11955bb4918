"""Judges the tasks that wait in the journal, several at once, each exactly once for a reader.

A task leaves the journal only after its judgement is durable. A task that is read again after a
crash is skipped when its judgement is already stored, so nothing is paid or counted twice; the
one round that was under way at the crash is the most that can be asked again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec
import structlog

from collector.acks import Acks
from collector.errors import Overloaded, TransientDependencyError
from collector.model import Judgement, JudgeTask
from collector.ports import Consumer, DeadLetters, Judge, Position, Record, Store
from collector.set_aside import SetAside
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Patience

_POLL_SECONDS = 0.2
_FLUSH_SECONDS = 0.25
_FLUSH_ROWS = 500
_REMEMBERED = 100_000
# Tasks read ahead: one look into the store tells for all of them whether they are judged already.
_READ_AHEAD = 200

log = structlog.get_logger()


class _Done(NamedTuple):
    task: JudgeTask
    judgement: Judgement
    position: Position


class JudgeWorker:
    """Reads judge tasks, judges up to `concurrency` at once and stores the judgements.

    Args:
        consumer: of the journal's judge topic.
        store: where judgements go.
        judge: the engine.
        concurrency: judgements under way at once.
        carried: called for a task that was waiting before this process started.
        finished: called once per counted task, after its judgement is durable.
        dead_letters: where unreadable tasks go.
        metrics: our own metrics.
        clock: the time.
    """

    def __init__(
        self,
        *,
        consumer: Consumer,
        store: Store,
        judge: Judge,
        concurrency: int,
        carried: Callable[[JudgeTask], None],
        finished: Callable[[JudgeTask, Judgement], None],
        dead_letters: DeadLetters,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._consumer = consumer
        self._store = store
        self._judge = judge
        self._concurrency = concurrency
        self._carried = carried
        self._finished = finished
        self._set_aside = SetAside(dead_letters, metrics)
        self._metrics = metrics
        self._clock = clock
        self._started_at = clock.now().timestamp()
        self._acks = Acks()
        self._ahead: deque[tuple[Record, JudgeTask]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._done: list[_Done] = []
        # Versions taken up in this process, so that a doubled task is judged once.
        self._taken: dict[tuple[str, int], None] = {}
        self._warn = RateLimitedLog()
        metrics.judge_in_flight_capacity.set(concurrency)
        metrics.judge_trusted.labels(judge.fingerprint).set(0)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. What is under way then is left in the journal."""
        patiently = Patience(
            stop, lambda e: self._warn.warning("waiting_for_dependency", error=type(e).__name__)
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(stop, patiently))
                group.create_task(self._flush_regularly(stop, patiently))
        except* (TransientDependencyError, Overloaded):
            log.warning("stopped_with_open_work", judgements=len(self._done))

    async def _read(self, stop: asyncio.Event, patiently: Patience) -> None:
        try:
            while not stop.is_set():
                self._metrics.loop_timestamp.labels("judge").set(self._clock.now().timestamp())
                if not self._ahead:
                    records = await patiently(self._consumer.poll, _READ_AHEAD, _POLL_SECONDS)
                    self._ahead.extend(await self._open_tasks(records, patiently))
                while self._ahead and self._has_room():
                    self._start(*self._ahead.popleft())
                if self._ahead or self._running:
                    await self._wait()
        finally:
            for running in self._running:
                running.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _has_room(self) -> bool:
        """Whether another judgement may start, and its result be kept until it is stored."""
        return len(self._running) < self._concurrency and len(self._done) < 2 * _FLUSH_ROWS

    async def _wait(self) -> None:
        if self._running:
            await asyncio.wait(
                self._running, timeout=_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        else:
            await asyncio.sleep(_FLUSH_SECONDS / 5)

    async def _open_tasks(
        self, records: list[Record], patiently: Patience
    ) -> list[tuple[Record, JudgeTask]]:
        """Decode the records and leave out what is judged or taken up already."""
        decoded = []
        for record in records:
            self._acks.read(record.position)
            try:
                decoded.append((record, msgspec.msgpack.decode(record.body, type=JudgeTask)))
            except (msgspec.DecodeError, UnicodeDecodeError):
                await self._set_aside([record], "malformed", patiently)
                self._acks.release([record.position])
        if not decoded:
            return []
        judged = await patiently(
            self._store.judged_versions,
            [task.request.trace_id for _, task in decoded],
            self._judge.fingerprint,
        )
        fresh = []
        for record, task in decoded:
            key = (task.request.trace_id, task.version)
            if judged.get(key[0], -1) >= task.version or key in self._taken:
                self._acks.release([record.position])
                continue
            self._taken[key] = None
            if len(self._taken) > _REMEMBERED:
                del self._taken[next(iter(self._taken))]
            if task.counted and record.appended_at < self._started_at:
                self._carried(task)
            fresh.append((record, task))
        return fresh

    def _start(self, record: Record, task: JudgeTask) -> None:
        running = asyncio.create_task(self._judge_one(record, task))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        self._metrics.judge_in_flight.set(len(self._running))

    async def _judge_one(self, record: Record, task: JudgeTask) -> None:
        started = self._clock.monotonic()
        try:
            judgement = await self._judge.judge(task.request)
        except Exception as err:  # a fault of ours must not hold the journal for ever
            log.exception("judge_crashed", trace_id=task.request.trace_id, error=type(err).__name__)
            judgement = Judgement(
                trace_id=task.request.trace_id,
                scorer="faithfulness",
                fingerprint=self._judge.fingerprint,
                status="failed",
                reason="internal",
            )
        seconds = self._clock.monotonic() - started
        self._metrics.judge_seconds.observe(seconds)
        judgement = msgspec.structs.replace(
            judgement,
            request_version=task.version,
            judged_at=self._clock.now(),
            duration_ms=seconds * 1000,
        )
        self._metrics.end_to_end.labels("judged").observe(
            max(0.0, self._clock.now().timestamp() - record.appended_at)
        )
        self._done.append(_Done(task, judgement, record.position))

    async def _flush_regularly(self, stop: asyncio.Event, patiently: Patience) -> None:
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _FLUSH_SECONDS)
            self._metrics.judge_in_flight.set(len(self._running))
            await self._flush(patiently)
        await self._flush(patiently)

    async def _flush(self, patiently: Patience) -> None:
        """Store what is judged, count it, then let go of its positions."""
        done, self._done = self._done[:_FLUSH_ROWS], self._done[_FLUSH_ROWS:]
        if done:
            started_at = {
                item.task.request.trace_id: item.task.request.started_at
                for item in done
                if item.task.request.started_at is not None
            }
            await patiently(
                self._store.write_judgements, [item.judgement for item in done], started_at
            )
            for item in done:
                if item.task.counted:
                    self._finished(item.task, item.judgement)
            self._acks.release([item.position for item in done])
        if offsets := self._acks.committable():
            await patiently(self._consumer.commit, offsets)
            self._acks.committed(offsets)
