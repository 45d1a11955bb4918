"""Judges the tasks that wait in the journal, several at once, each exactly once for a reader.

A task leaves the journal only after its judgement is durable. A task that is read again after a
crash is skipped when its judgement is already stored, so nothing is paid or counted twice; the
one round that was under way at the crash is the most that can be asked again.

While an endpoint is down or the day's budget is used up, tasks wait in the journal, and fail only
after `max_wait_hours`. A task that fails like that again and again while others are judged in
between is at fault itself, and fails at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import structlog

from collector.acks import Acks
from collector.errors import DependencyError, Overloaded, Postponed, TransientDependencyError
from collector.model import FAITHFULNESS, Judgement, JudgeTask
from collector.ports import Consumer, DeadLetters, Judge, Position, Record, Store
from collector.set_aside import SetAside
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Patience

_POLL_SECONDS = 0.2
_FLUSH_SECONDS = 0.25
_FLUSH_ROWS = 500
_REMEMBERED = 100_000
# Tasks read ahead: one look into the store tells for all of them whether they are judged already.
READ_AHEAD = 200
_LONGEST_REST_SECONDS = 300.0
_STORE_REST_SECONDS = 2.0
_STRIKES = 3

log = structlog.get_logger()


@dataclass(eq=False)
class _Work:
    """A task that is read; not to be started before `not_before`, on the monotonic clock.

    `strikes` counts how often it failed alone: others were judged since the time before, when
    their number was `judged_before`.
    """

    record: Record
    task: JudgeTask
    not_before: float = 0.0
    strikes: int = 0
    judged_before: int | None = None


_Key = tuple[str, str, int]
"""Of a task: scorer, trace, version."""


class _Done(NamedTuple):
    task: JudgeTask
    judgement: Judgement
    position: Position


class JudgeWorker:
    """Reads judge tasks, judges up to `concurrency` at once and stores the judgements.

    Args:
        consumer: of the journal's judge topic.
        store: where judgements go.
        judge: of faithfulness.
        scorers: those of everything else, by name. A task of one that is not there is let go.
        concurrency: judgements under way at once.
        max_wait_hours: age at which a task that cannot be judged now counts as failed.
        read_ahead: tasks read and not yet judged, those that are put off included.
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
        scorers: Mapping[str, Judge] | None = None,
        concurrency: int,
        max_wait_hours: float,
        read_ahead: int = READ_AHEAD,
        carried: Callable[[JudgeTask], None],
        finished: Callable[[JudgeTask, Judgement], None],
        dead_letters: DeadLetters,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._consumer = consumer
        self._store = store
        self._judges = {FAITHFULNESS: judge, **(scorers or {})}
        self._concurrency = concurrency
        self._max_wait_seconds = max_wait_hours * 3600
        self._read_ahead = read_ahead
        self._carried = carried
        self._finished = finished
        self._set_aside = SetAside(dead_letters, metrics)
        self._metrics = metrics
        self._clock = clock
        self._started_at = clock.now().timestamp()
        self._acks = Acks()
        self._ahead: deque[_Work] = deque()
        self._running: dict[asyncio.Task[None], _Work] = {}
        self._done: list[_Done] = []
        self._judged = 0
        # Versions taken up in this process, so that a doubled task is judged once.
        self._taken: dict[_Key, None] = {}
        self._warn = RateLimitedLog()
        # Held while tasks are read, and while judgements are stored.
        self._reading, self._storing = asyncio.Lock(), asyncio.Lock()
        self._patiently: Patience | None = None
        consumer.before_letting_go(self.let_go)
        metrics.judge_in_flight_capacity.set(concurrency)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. What is under way then is left in the journal."""
        patiently = self._patiently = Patience(
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
                lacking = self._read_ahead - len(self._ahead)
                if lacking > 0 and self._next_due() is None:
                    async with self._reading:
                        records = await patiently(self._consumer.poll, lacking, _POLL_SECONDS)
                        self._ahead.extend(await self._open_tasks(records, patiently))
                while self._has_room() and (work := self._next_due()):
                    self._ahead.remove(work)
                    self._start(work)
                if self._ahead or self._running:
                    await self._wait()
        finally:
            for running in self._running:
                running.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def let_go(self, partitions: set[int]) -> None:
        """Finish the judgements of partitions that another process takes over, forget the rest.

        Raises:
            TransientDependencyError, Overloaded: only once stopping.
        """
        async with self._reading:
            self._forget_ahead(partitions)
            theirs = [task for task, work in self._running.items() if _is_of(work, partitions)]
            if theirs:
                await asyncio.wait(theirs)
            self._forget_ahead(partitions)  # what was put off
            if self._patiently is not None:
                await self._flush(self._patiently)
                while self._done:
                    await self._flush(self._patiently)
            async with self._storing:
                self._acks.forget(partitions)

    def _forget_ahead(self, partitions: set[int]) -> None:
        for work in [work for work in self._ahead if _is_of(work, partitions)]:
            self._ahead.remove(work)
            # Should it come back, it is to be judged.
            self._taken.pop(_key(work.task), None)

    def _has_room(self) -> bool:
        """Whether another judgement may start, and its result be kept until it is stored."""
        return len(self._running) < self._concurrency and len(self._done) < 2 * _FLUSH_ROWS

    def _next_due(self) -> _Work | None:
        now = self._clock.monotonic()
        return next((work for work in self._ahead if work.not_before <= now), None)

    async def _wait(self) -> None:
        if self._running:
            await asyncio.wait(
                self._running, timeout=_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        else:
            await asyncio.sleep(_FLUSH_SECONDS / 5)

    async def _open_tasks(self, records: list[Record], patiently: Patience) -> list[_Work]:
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
        judged: dict[str, dict[str, int]] = {}
        for scorer in {task.scorer for _, task in decoded} & self._judges.keys():
            ids = [task.request.trace_id for _, task in decoded if task.scorer == scorer]
            judged[scorer] = await patiently(
                self._store.judged_versions, ids, self._judges[scorer].fingerprint
            )
        fresh = []
        for record, task in decoded:
            key = _key(task)
            known = judged.get(task.scorer)
            if (
                known is None
                or known.get(task.request.trace_id, -1) >= task.version
                or key in self._taken
            ):
                self._acks.release([record.position])
                continue
            self._taken[key] = None
            if len(self._taken) > _REMEMBERED:
                del self._taken[next(iter(self._taken))]
            if task.counted and record.appended_at < self._started_at:
                self._carried(task)
            fresh.append(_Work(record, task))
        return fresh

    def _start(self, work: _Work) -> None:
        running = asyncio.create_task(self._judge_one(work))
        self._running[running] = work
        running.add_done_callback(self._running.pop)
        self._metrics.judge_in_flight.set(len(self._running))

    async def _judge_one(self, work: _Work) -> None:
        started = self._clock.monotonic()
        record, task = work.record, work.task
        try:
            judgement = await self._judges[task.scorer].judge(task.request)
            self._judged += judgement.status != "failed"
        except (Postponed, DependencyError) as err:
            if not isinstance(err, Postponed):
                self._warn.warning("judge_lacks_store", error=str(err))
                err = Postponed("internal", _STORE_REST_SECONDS)
            if not self._is_over(work, err):
                self._put_off(work, err)
                return
            judgement = self._failed(task, err.cause)
        except Exception as err:  # a fault of ours must not hold the journal for ever
            log.exception("judge_crashed", trace_id=task.request.trace_id, error=type(err).__name__)
            judgement = self._failed(task, "internal")
        seconds = self._clock.monotonic() - started
        self._metrics.judge_seconds.observe(seconds)
        judgement = msgspec.structs.replace(
            judgement,
            request_version=task.version,
            judged_at=self._clock.now(),
            duration_ms=seconds * 1000,
            purpose=task.purpose,
        )
        self._metrics.end_to_end.labels("judged").observe(
            max(0.0, self._clock.now().timestamp() - record.appended_at)
        )
        self._done.append(_Done(task, judgement, record.position))

    def _is_over(self, work: _Work, err: Postponed) -> bool:
        """Say whether a task that cannot be judged now has to count as failed."""
        others_went = work.judged_before is not None and self._judged > work.judged_before
        work.strikes += err.tried and others_went
        if err.tried:
            work.judged_before = self._judged
        waited = self._clock.now().timestamp() - work.record.appended_at
        return work.strikes >= _STRIKES or waited > self._max_wait_seconds

    def _put_off(self, work: _Work, err: Postponed) -> None:
        """Leave a task for later, behind those that were read but not tried."""
        self._metrics.judge_postponed.labels(err.cause).inc()
        self._warn.warning(
            "judgement_postponed", cause=err.cause, seconds=round(err.retry_after_seconds)
        )
        rest = min(err.retry_after_seconds, _LONGEST_REST_SECONDS)
        work.not_before = self._clock.monotonic() + rest
        self._ahead.append(work)

    def _failed(self, task: JudgeTask, cause: str) -> Judgement:
        return Judgement(
            trace_id=task.request.trace_id,
            scorer=task.scorer,
            fingerprint=self._judges[task.scorer].fingerprint,
            status="failed",
            reason=cause,
        )

    async def _flush_regularly(self, stop: asyncio.Event, patiently: Patience) -> None:
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _FLUSH_SECONDS)
            self._metrics.judge_in_flight.set(len(self._running))
            await self._flush(patiently)
        await self._flush(patiently)

    async def _flush(self, patiently: Patience) -> None:
        """Store what is judged, count it, then let go of its positions."""
        async with self._storing:
            await self._store_done(patiently)

    async def _store_done(self, patiently: Patience) -> None:
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


def _key(task: JudgeTask) -> _Key:
    return task.scorer, task.request.trace_id, task.version


def _is_of(work: _Work, partitions: set[int]) -> bool:
    return work.record.position.partition in partitions
