"""One member of a consumer group on a journal in a file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from collector.errors import TransientDependencyError
from collector.ports import LetGo, Record

if TYPE_CHECKING:
    from collector.journal.sqlite import SqliteJournal


class SqliteConsumer:
    """A `collector.ports.Consumer` of a `SqliteJournal`; made by its `consumer` method."""

    def __init__(self, journal: SqliteJournal, topic: str, group: str) -> None:
        """Belong to a group, without a turn to read yet."""
        self.topic = topic
        self.group = group
        self._journal = journal
        self._next: int | None = None
        self._closed = False
        self._news = asyncio.Event()

    @property
    def share(self) -> float:
        """See `collector.ports.Consumer.share`. There is one partition."""
        return 1.0

    def before_letting_go(self, finish: LetGo) -> None:
        """See `collector.ports.Consumer.before_letting_go`. The one partition never moves."""

    async def poll(self, max_records: int, timeout_seconds: float) -> list[Record]:
        """See `collector.ports.Consumer.poll`. Wakes as soon as something is appended."""
        self._check_open()
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        while not self._closed:
            self._news.clear()
            if records := await self._read(max_records):
                return records
            try:  # only the waiting is timed: a read under way is not thrown away
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                break
        return []

    async def commit(self, next_offsets: dict[int, int]) -> None:
        """See `collector.ports.Consumer.commit`.

        Raises:
            ValueError: another partition than 0, or an offset beyond what was polled.
        """
        self._check_open()
        for partition, next_offset in next_offsets.items():
            if partition != 0 or next_offset > (self._next or 0):
                raise ValueError(
                    f"partition {partition}, offset {next_offset}: commit only what was polled"
                )
            await self._journal.advance(self.topic, self.group, next_offset)

    async def lag(self) -> tuple[int, float]:
        """See `collector.ports.Consumer.lag`."""
        self._check_open()
        return await self._journal.backlog(self.topic, self.group)

    async def close(self) -> None:
        """Leave the group. May be called twice."""
        if not self._closed:
            self._closed = True
            self._journal.leave(self)
            self._news.set()

    def take_over(self, position: int) -> None:
        """It is this member's turn to read, from `position` on."""
        self._next = position
        self._news.set()

    def wake(self) -> None:
        """There may be something to read."""
        self._news.set()

    async def _read(self, max_records: int) -> list[Record]:
        start = self._next
        if start is None:
            return []
        records = await self._journal.read(self.topic, start, max_records)
        if records:
            self._next = records[-1].position.offset + 1
        return records

    def _check_open(self) -> None:
        if self._closed:
            raise TransientDependencyError(f"{self.topic}: this consumer is closed")
