"""What one member of a consumer group has still to do in the partitions it owns."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

_ARRIVAL_SECONDS = 1.0


class Backlog:
    """Records not yet committed, by partition; all of it belongs to one event loop.

    The end of a partition may lie beyond its last record, behind marks of a transaction, and what
    was committed before its first, where older ones were deleted. So what has not come is counted
    from where the client reads on.
    """

    def __init__(self) -> None:
        self._committed: dict[int, int] = {}
        # Offsets and times of what came and is not committed.
        self._open: dict[int, deque[tuple[int, float]]] = {}
        # From which offset on none has come, and since when some are known to be there.
        self._next: dict[int, int] = {}
        self._unread: dict[int, tuple[int, float]] = {}
        self._arrival = asyncio.Event()

    @property
    def partitions(self) -> list[int]:
        """Those that are owned."""
        return list(self._open)

    def gained(self, partition: int) -> None:
        """Own one more, of which nothing is known yet."""
        self.dropped(partition)
        self._open[partition] = deque()

    def dropped(self, partition: int) -> None:
        """Own it no more."""
        for kept in (self._committed, self._open, self._next, self._unread):
            kept.pop(partition, None)

    def received(self, partition: int, offset: int, appended_at: float) -> None:
        """Note that a record of an owned partition came."""
        self._open[partition].append((offset, appended_at))
        self._next[partition] = offset + 1
        self._arrival.set()

    def reads_on(self, partition: int, offset: int) -> None:
        """Note where the client reads on in a partition, if it is owned."""
        if partition in self._open:
            self._next[partition] = offset

    def knows(self, partition: int) -> bool:
        """Whether it is known where the client reads on."""
        return partition in self._next

    def committed(self, partition: int) -> int:
        """Return the first offset not committed since a partition was gained, 0 before that."""
        return self._committed.get(partition, 0)

    def commits(self, partition: int, offset: int) -> None:
        """Note the first offset not committed of a partition, if it is owned. Never goes back."""
        if partition not in self._open:
            return
        offset = self._committed[partition] = max(offset, self.committed(partition))
        is_open = self._open[partition]
        while is_open and is_open[0][0] < offset:
            is_open.popleft()

    def count(self, partition: int, end: int, now: float) -> int:
        """Return how many records wait in a partition that ends at `end`; 0 if it is not owned."""
        start = self._next.get(partition)
        if start is None:
            return 0
        is_open = self._open[partition]
        unread = max(0, end - start)
        if is_open or not unread:
            self._unread.pop(partition, None)
        elif self._unread.get(partition, (None, now))[0] != start:
            self._unread[partition] = start, now
        return len(is_open) + unread

    async def oldest(self) -> float | None:
        """Return the time of the oldest record not committed, once one has come.

        Of those of which none comes it is the time since when they are known to be there.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_ARRIVAL_SECONDS):
                while not any(self._open.values()):
                    self._arrival.clear()
                    await self._arrival.wait()
        times = [is_open[0][1] for is_open in self._open.values() if is_open]
        return min([*times, *(since for _, since in self._unread.values())], default=None)
