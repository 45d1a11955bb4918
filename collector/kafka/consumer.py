"""One member of a Kafka consumer group, with a thread of its own that never stops polling.

The client must be polled for a member to keep its partitions, whatever its reader does. So a
thread polls all the time and fills a bounded buffer; while that is full the partitions are paused.

Three parties meet here. The polling thread owns the client. The client calls its listener on an
I/O thread, on which nothing may block. Everything else belongs to the event loop, where both
put what happened, in order.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from kafka import AsyncConsumerRebalanceListener
from kafka.errors import KafkaError
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.errors import DependencyError, GroundwatchError, TransientDependencyError
from collector.kafka.backlog import Backlog
from collector.kafka.client import Brokers, positions_of
from collector.kafka.mends import finish_joining, take_up_parked
from collector.ports import LetGo, Record
from collector.telemetry import RateLimitedLog
from collector.timing import Clock

_BUFFER_BYTES = 32 * 1024 * 1024
_BUFFER_RECORDS = 1000
_POLL_MS = 200
_JOIN_SECONDS = 5.0
_COMMIT_SECONDS = 10.0
_CLOSE_SECONDS = 3.0
_REST_SECONDS = 1.0
_LOOK_SECONDS = 1.0

Read = Callable[[Any], Record]
_T = TypeVar("_T")


class KafkaConsumer:
    """A `collector.ports.Consumer` of one topic; made by `join`."""

    def __init__(
        self, brokers: Brokers, topic: str, read: Read, rebalance_seconds: float, clock: Clock
    ) -> None:
        """Not yet a member; use `join`."""
        self.topic = topic
        self._brokers = brokers
        self._read = read
        self._rebalance_seconds = rebalance_seconds
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._log = RateLimitedLog()
        self._client: Any = None
        self._thread = threading.Thread(target=self._keep_polling, name=f"poll-{topic}")
        self._thread.daemon = True
        self._calls = ThreadPoolExecutor(1, f"commit-{topic}")
        self._let_go: LetGo | None = None
        self._joined = asyncio.Event()
        self._news = asyncio.Event()
        self._closing = False
        self._error: DependencyError | None = None
        self._look_at = 0.0
        # Of the partitions this member owns: the buffer, and how far each is read and done.
        self._buffer: deque[Record] = deque()
        self._buffered_bytes = 0
        self._polled: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._backlog = Backlog()
        # Partitions whose earlier records the reader has still to finish, and all let go of so far.
        self._leaving: set[int] = set()
        self._former: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._owned: frozenset[int] = frozenset()
        self._partitions = 0
        self._gain = asyncio.Event()

    @classmethod
    async def join(
        cls,
        brokers: Brokers,
        topic: str,
        group: str,
        read: Read,
        *,
        session_seconds: float,
        rebalance_seconds: float,
        clock: Clock,
    ) -> KafkaConsumer:
        """Become a member of a group; returns once it is one, or when that takes too long.

        Args:
            brokers: where.
            topic: what to read.
            group: which group.
            read: makes a record of a message; must not raise.
            session_seconds: silence after which another member takes over.
            rebalance_seconds: time for finishing what another member takes over.
            clock: the time.

        Raises:
            DependencyError: the brokers cannot be reached.
        """
        member = cls(brokers, topic, read, rebalance_seconds, clock)
        listener = _Listener(member)
        member._client = await asyncio.to_thread(
            brokers.consumer, topic, group, session_seconds, rebalance_seconds, listener
        )
        member._thread.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(_JOIN_SECONDS):
                await member._joined.wait()
        return member

    def before_letting_go(self, finish: LetGo) -> None:
        """See `collector.ports.Consumer.before_letting_go`."""
        self._let_go = finish

    @property
    def share(self) -> float:
        """See `collector.ports.Consumer.share`."""
        owned = max(1, len(self._owned))
        return owned / max(owned, self._partitions)

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that are this member's and that it need not let go of."""
        return self._owned

    async def owning(self, partition: int) -> None:
        """Return once a partition is among the owned."""
        while partition not in self._owned:
            self._gain.clear()
            await self._gain.wait()

    async def poll(self, max_records: int, timeout_seconds: float) -> list[Record]:
        """See `collector.ports.Consumer.poll`."""
        self._check_open()
        deadline = self._loop.time() + timeout_seconds
        while not self._closing:
            self._news.clear()
            if records := self._take(max_records):
                return records
            if self._error is not None:
                raise self._error
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                break
        return []

    async def commit(self, next_offsets: dict[int, int]) -> None:
        """See `collector.ports.Consumer.commit`. What another member owns by now is left out.

        Raises:
            ValueError: an offset beyond what was polled.
        """
        self._check_open()
        moved: dict[int, int] = {}
        for partition, offset in next_offsets.items():
            if offset > self._polled.get(partition, 0):
                if partition in self._former:
                    continue  # polled before it went
                raise ValueError(
                    f"partition {partition}, offset {offset}: commit only what was polled"
                )
            if offset > self._backlog.committed(partition):
                moved[partition] = offset
        if not moved:
            return
        offsets = {
            TopicPartition(self.topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in moved.items()
        }
        await self._call(self._client.commit, offsets, _COMMIT_SECONDS * 1000)
        for partition, offset in moved.items():
            self._backlog.commits(partition, offset)

    async def lag(self) -> tuple[int, float]:
        """See `collector.ports.Consumer.lag`; of the partitions this member owns."""
        self._check_open()
        owned = [TopicPartition(self.topic, partition) for partition in self._backlog.partitions]
        if not owned:
            return 0, 0.0
        ends = await self._call(self._client.end_offsets, owned)
        records, now = 0, self._clock.now().timestamp()
        for place, end in ends.items():
            if not self._backlog.knows(place.partition):
                start = await self._start_of(place)
                if not self._backlog.knows(place.partition):
                    self._backlog.reads_on(place.partition, start)
            records += self._backlog.count(place.partition, end, now)
        oldest = await self._backlog.oldest() if records else None
        if oldest is None:
            return records, 0.0
        return records, max(0.0, self._clock.now().timestamp() - oldest)

    async def close(self) -> None:
        """Leave the group; the other members go on. May be called twice."""
        if self._closing:
            return
        self._closing = True
        self._news.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.to_thread(self._thread.join)
        self._calls.shutdown(wait=False, cancel_futures=True)

    # --- on the loop ---

    def _take(self, max_records: int) -> list[Record]:
        """Take records out of the buffer, except of what is not yet let go of from before."""
        taken: list[Record] = []
        kept: deque[Record] = deque()
        while self._buffer and len(taken) < max_records:
            record = self._buffer.popleft()
            (kept if record.position.partition in self._leaving else taken).append(record)
        self._buffer.extendleft(reversed(kept))
        for record in taken:
            self._buffered_bytes -= len(record.body)
            self._polled[record.position.partition] = record.position.offset + 1
        return taken

    def _received(self, records: list[Record]) -> None:
        for record in records:
            partition, offset = record.position
            if partition not in self._polled:
                continue
            if offset < self._next.get(partition, 0):
                # The brokers have lost what came after, and count anew from here.
                self._log.warning("offsets_went_back", topic=self.topic, partition=partition)
                self._lost({partition})
                self._gained({partition})
            self._next[partition] = offset + 1
            self._buffer.append(record)
            self._buffered_bytes += len(record.body)
            # A producer may have given no time, which is one before 1970.
            is_dated = record.appended_at > 0
            since = record.appended_at if is_dated else self._clock.now().timestamp()
            self._backlog.received(partition, offset, since)
        self._news.set()

    def _reads_on(self, positions: dict[int, int]) -> None:
        for partition, offset in positions.items():
            self._backlog.reads_on(partition, offset)

    def _gained(self, partitions: set[int]) -> None:
        for partition in partitions:
            self._polled[partition] = 0
            self._backlog.gained(partition)
        self._owned |= partitions
        self._gain.set()
        self._joined.set()

    def _lost(self, partitions: set[int]) -> None:
        """Forget partitions that are another's by now, without a chance to commit."""
        self._drop(partitions)
        self._finish(partitions)

    def _revoked(self, partitions: set[int], may_go: Callable[[], None]) -> None:
        """Have what is open of these partitions finished; `may_go` lets the client go on."""
        self._unbuffer(partitions)
        self._start(self._hand_over(self._finish(partitions), partitions, may_go))

    async def _hand_over(
        self, finishing: asyncio.Task[None], partitions: set[int], may_go: Callable[[], None]
    ) -> None:
        """Finish, commit, let go: all within one deadline."""
        try:
            await asyncio.wait([finishing], timeout=self._rebalance_seconds)
            if not finishing.done():
                self._log.warning("rebalanced_with_open_work", topic=self.topic)
            self._drop(partitions)
        finally:
            try:  # a commit of nothing wakes the client's I/O thread, on which `may_go` has to run
                self._client.commit_async({}).add_both(lambda _: may_go())
            except RuntimeError:  # that thread is gone
                may_go()

    def _finish(self, partitions: set[int]) -> asyncio.Task[None]:
        """Have the reader finish. Until it has, it is given no record of these partitions again."""
        self._leaving |= partitions
        self._owned -= partitions
        return self._start(self._finished(partitions))

    async def _finished(self, partitions: set[int]) -> None:
        try:
            if self._let_go is not None:
                await self._let_go(partitions)
        except GroundwatchError as err:  # the next owner starts at the committed position
            self._log.warning("not_finished", topic=self.topic, error=type(err).__name__)
        finally:
            self._leaving -= partitions
            self._news.set()

    def _drop(self, partitions: set[int]) -> None:
        """Forget what is not ours any more."""
        self._unbuffer(partitions)
        self._former |= partitions
        for partition in partitions:
            self._polled.pop(partition, None)
            self._next.pop(partition, None)
            self._backlog.dropped(partition)

    def _unbuffer(self, partitions: set[int]) -> None:
        self._buffer = deque(r for r in self._buffer if r.position.partition not in partitions)
        self._buffered_bytes = sum(len(record.body) for record in self._buffer)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _start_of(self, place: TopicPartition) -> int:
        """Return where the group starts in a partition, as far as brokers tell."""
        first: dict[TopicPartition, int] = await self._call(self._client.beginning_offsets, [place])
        committed: int | None = await self._call(self._client.committed, place)
        return max(first[place], committed or 0)

    async def _call(self, call: Callable[..., _T], *args: object) -> _T:
        """Make a call of the client that may be made beside its polling, and waits for brokers."""
        try:
            return await self._loop.run_in_executor(self._calls, lambda: call(*args))
        except (KafkaError, RuntimeError) as err:
            raise self._brokers.explain(err, f"{self.topic}: ") from err

    def _check_open(self) -> None:
        if self._closing:
            raise TransientDependencyError(f"{self.topic}: this consumer is closed")

    # --- the polling thread ---

    def _keep_polling(self) -> None:
        rest = threading.Event()
        while not self._closing:
            try:
                self._turn()
                error = None
            except Exception as err:
                error = self._brokers.explain(err, f"{self.topic}: ")
                rest.wait(_REST_SECONDS)
            if error or self._error:
                self.on_loop(self._failing, error)
        with suppress(Exception):  # brokers that are gone notice by themselves
            self._client.close(autocommit=False, timeout_ms=_CLOSE_SECONDS * 1000)

    def _turn(self) -> None:
        """Poll once, and pause or resume by how full the buffer is."""
        # First, since what a poll has given out is lost by an error after it. They may grow.
        partitions = len(self._client.partitions_for_topic(self.topic))
        self._partitions = max(self._partitions, partitions)
        take_up_parked(self._client)
        finish_joining(self._client)
        found = self._client.poll(timeout_ms=_POLL_MS, max_records=_BUFFER_RECORDS // 2)
        records = [self._read(message) for messages in found.values() for message in messages]
        if records:
            self.on_loop(self._received, records)
        if self._loop.time() >= self._look_at:
            self._look_at = self._loop.time() + _LOOK_SECONDS
            self.on_loop(self._reads_on, positions_of(self._client))
        if not self._joined.is_set() and self._client.group_metadata().generation_id >= 0:
            self.on_loop(self._joined.set)
        is_full = self._buffered_bytes + sum(len(r.body) for r in records) >= _BUFFER_BYTES
        is_full = is_full or len(self._buffer) + len(records) >= _BUFFER_RECORDS
        if is_full:
            self._client.pause(*self._client.assignment())
        elif paused := self._client.paused():
            self._client.resume(*paused)

    def _failing(self, error: DependencyError | None) -> None:
        if error is not None:
            self._log.warning("polling_failed", error=str(error))
        self._error = error
        self._news.set()

    def on_loop(self, action: Callable[..., None], *args: object) -> bool:
        """Have something done on the loop, after all put there before; False if it is gone."""
        try:
            self._loop.call_soon_threadsafe(action, *args)
        except RuntimeError:
            return False
        return True


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Called on the client's I/O thread, whose loop is not asyncio's: only its futures can wait."""

    def __init__(self, member: KafkaConsumer) -> None:
        self._member = member

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Tell the loop what this member owns now."""
        self._member.on_loop(self._member._gained, _numbers(assigned))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Hold the rebalance up until the reader has finished; heartbeats go on meanwhile."""
        partitions = _numbers(revoked)
        if not partitions or self._member._closing:
            return
        let_go = Future()
        if self._member.on_loop(self._member._revoked, partitions, lambda: let_go.success(None)):
            await let_go

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Tell the loop that it is too late to commit."""
        self._member.on_loop(self._member._lost, _numbers(lost))


def _numbers(places: Iterable[TopicPartition]) -> set[int]:
    return {place.partition for place in places}
