"""An in-memory journal that keeps the whole contract, and fails where a test wants it to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from collector.errors import GroundwatchError, Overloaded, TransientDependencyError
from collector.ports import Entry, LetGo, Position, Record
from collector.timing import Clock, SystemClock


@dataclass
class MemoryLog:
    """What survives the journal that wrote it: hand it to the next one to play a restart."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    positions: dict[tuple[str, str], int] = field(default_factory=dict)
    last_offset: int = 0

    def bytes_used(self) -> int:
        return sum(len(record.body) for records in self.records.values() for record in records)

    def trim(self, topic: str) -> None:
        floors = [position for (of, _), position in self.positions.items() if of == topic]
        kept = [r for r in self.records.get(topic, []) if r.position.offset >= min(floors)]
        self.records[topic] = kept

    def from_offset(self, topic: str, start: int) -> list[Record]:
        return [r for r in self.records.get(topic, []) if r.position.offset >= start]


class MemoryJournal:
    """A `collector.ports.Journal` without a disk.

    Each error put into `append_failures`, `poll_failures` or `commit_failures` makes one call
    fail, oldest first. While `running` is cleared, appends hang.
    """

    def __init__(
        self,
        log: MemoryLog | None = None,
        *,
        max_bytes: int = 1 << 30,
        clock: Clock | None = None,
    ) -> None:
        self.log = MemoryLog() if log is None else log
        self.max_bytes = max_bytes
        self.clock = clock or SystemClock()
        self.append_failures: list[GroundwatchError] = []
        self.poll_failures: list[GroundwatchError] = []
        self.commit_failures: list[GroundwatchError] = []
        self.running = asyncio.Event()
        self.running.set()
        self.closed = False
        self.members: dict[tuple[str, str], list[MemoryConsumer]] = {}

    @property
    def entries(self) -> list[Entry]:
        """Everything that is in the journal now, topic by topic, in order."""
        return [
            Entry(topic, record.kind, record.key, record.body)
            for topic, records in self.log.records.items()
            for record in records
        ]

    async def append(self, entries: Sequence[Entry]) -> None:
        self.check_open()
        await self.running.wait()
        fail_once(self.append_failures)
        if self.log.bytes_used() + sum(len(entry.body) for entry in entries) > self.max_bytes:
            raise Overloaded("journal")
        now = self.clock.now().timestamp()
        for entry in entries:
            self.log.last_offset += 1
            position = Position(0, self.log.last_offset)
            record = Record(position, entry.kind, entry.key, entry.body, now)
            self.log.records.setdefault(entry.topic, []).append(record)
        self.wake()

    async def consumer(self, topic: str, group: str) -> MemoryConsumer:
        self.check_open()
        self.log.positions.setdefault((topic, group), 0)
        member = MemoryConsumer(self, topic, group)
        self.members.setdefault((topic, group), []).append(member)
        return member

    async def close(self) -> None:
        self.closed = True
        for members in self.members.values():
            for member in list(members):
                await member.close()

    def check_open(self) -> None:
        if self.closed:
            raise TransientDependencyError("the journal is closed")

    def wake(self) -> None:
        for members in self.members.values():
            for member in members:
                member.news.set()


class MemoryConsumer:
    """A member of a group; only the first member of a group is given records."""

    def __init__(self, journal: MemoryJournal, topic: str, group: str) -> None:
        self.journal = journal
        self.topic = topic
        self.group = group
        self.next: int | None = None
        self.closed = False
        self.news = asyncio.Event()
        self.let_go: LetGo | None = None

    @property
    def share(self) -> float:
        return 1.0

    def before_letting_go(self, finish: LetGo) -> None:
        """Its one partition never moves by itself; `take_away` plays a broker that moves it."""
        self.let_go = finish

    async def take_away(self) -> None:
        """Let another member have the partition, after the reader has finished."""
        assert self.let_go is not None
        await self.let_go({0})
        self.next = None

    async def poll(self, max_records: int, timeout_seconds: float) -> list[Record]:
        self.check_open()
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        while not self.closed:
            self.news.clear()
            fail_once(self.journal.poll_failures)
            if records := self.take(max_records):
                return records
            try:
                async with asyncio.timeout_at(deadline):
                    await self.news.wait()
            except TimeoutError:
                break
        return []

    async def commit(self, next_offsets: dict[int, int]) -> None:
        self.check_open()
        fail_once(self.journal.commit_failures)
        for partition, next_offset in next_offsets.items():
            if partition != 0 or next_offset > self.position:
                raise ValueError(f"partition {partition}, offset {next_offset} was never polled")
            positions = self.journal.log.positions
            positions[self.topic, self.group] = max(self.committed, next_offset)
        self.journal.log.trim(self.topic)

    async def lag(self) -> tuple[int, float]:
        self.check_open()
        waiting = self.journal.log.from_offset(self.topic, self.committed)
        if not waiting:
            return 0, 0.0
        return len(waiting), self.journal.clock.now().timestamp() - waiting[0].appended_at

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.journal.members[self.topic, self.group].remove(self)
            self.news.set()
            self.journal.wake()

    @property
    def committed(self) -> int:
        return self.journal.log.positions[self.topic, self.group]

    @property
    def position(self) -> int:
        """Offset of the next record to read."""
        return self.committed if self.next is None else self.next

    def take(self, max_records: int) -> list[Record]:
        if self.journal.members[self.topic, self.group][0] is not self:
            return []
        records = self.journal.log.from_offset(self.topic, self.position)[:max_records]
        if records:
            self.next = records[-1].position.offset + 1
        return records

    def check_open(self) -> None:
        if self.closed:
            raise TransientDependencyError("this consumer is closed")


def fail_once(failures: list[GroundwatchError]) -> None:
    """Raise the oldest planned failure, if there is one."""
    if failures:
        raise failures.pop(0)
