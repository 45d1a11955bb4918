"""What one member of a consumer group has still to do in the partitions it owns."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

_ARRIVAL_SECONDS = 1.0


class Backlog:
    """Records not yet committed, by partition; all of it belongs to one event loop."""

    def __init__(self) -> None:
        self._committed: dict[int, int] = {}
        # Offsets and times of what came and is not committed.
        self._open: dict[int, deque[tuple[int, float]]] = {}
        # From which offset on none has come, and since when that is known.
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
        for kept in (self._committed, self._open, self._unread):
            kept.pop(partition, None)

    def received(self, partition: int, offset: int, appended_at: float) -> None:
        """Note that a record of an owned partition came."""
        self._open[partition].append((offset, appended_at))
        self._arrival.set()

    def start(self, partition: int) -> int | None:
        """Return the first offset not committed, None while that is not known."""
        return self._committed.get(partition)

    def starts(self, partition: int, offset: int) -> None:
        """Note the first offset not committed of a partition, if it is owned. Never goes back."""
        if partition not in self._open:
            return
        offset = self._committed[partition] = max(offset, self._committed.get(partition, 0))
        is_open = self._open[partition]
        while is_open and is_open[0][0] < offset:
            is_open.popleft()

    def count(self, partition: int, end: int, now: float) -> int:
        """Return how many records wait in a partition that ends at `end`; 0 if it is not owned."""
        start = self._committed.get(partition)
        if start is None:
            return 0
        is_open = self._open[partition]
        if is_open:
            end = max(end, is_open[-1][0] + 1)
        if is_open or start >= end:
            self._unread.pop(partition, None)
        elif self._unread.get(partition, (None, now))[0] != start:
            self._unread[partition] = start, now
        return max(0, end - start)

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
