"""Which journal positions may be committed: all below the first that is not yet done.

Work completes out of order (one record holds spans of many traces, a trace waits for its last
span), commits must not. Each record is held once per piece of unfinished work it fed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from collector.ports import Position


class Acks:
    """Contiguous low watermark per partition over out-of-order completions."""

    def __init__(self) -> None:
        self._holds: dict[Position, int] = {}
        self._order: dict[int, deque[int]] = {}
        self._next: dict[int, int] = {}
        self._committed: dict[int, int] = {}

    def __len__(self) -> int:
        """Positions read and not yet committable."""
        return sum(len(offsets) for offsets in self._order.values())

    def read(self, position: Position) -> None:
        """Note that a record was read, in offset order, and hold it until `release`.

        Raises:
            ValueError: the offset is not above the last one read of its partition.
        """
        if position.offset < self._next.get(position.partition, 0):
            raise ValueError(f"offset {position.offset} was read before")
        self._next[position.partition] = position.offset + 1
        self._order.setdefault(position.partition, deque()).append(position.offset)
        self._holds[position] = 1

    def hold(self, position: Position) -> None:
        """Hold a position that is read and not yet released once more."""
        self._holds[position] += 1

    def release(self, positions: Iterable[Position]) -> None:
        """Take one hold off each position. The last one makes it done."""
        for position in positions:
            self._holds[position] -= 1
            if self._holds[position] == 0:
                del self._holds[position]

    def committable(self) -> dict[int, int]:
        """Return, per partition that has moved since `committed`, the first offset not done."""
        moved: dict[int, int] = {}
        for partition, offsets in self._order.items():
            while offsets and Position(partition, offsets[0]) not in self._holds:
                offsets.popleft()
            watermark = offsets[0] if offsets else self._next[partition]
            if watermark > self._committed.get(partition, 0):
                moved[partition] = watermark
        return moved

    def forget(self, partitions: set[int]) -> None:
        """Drop all that is known of partitions that are another's from now on."""
        self._holds = {
            p: holds for p, holds in self._holds.items() if p.partition not in partitions
        }
        for partition in partitions:
            self._order.pop(partition, None)
            self._next.pop(partition, None)
            self._committed.pop(partition, None)

    def committed(self, next_offsets: dict[int, int]) -> None:
        """Note that these offsets are durably committed."""
        self._committed.update(next_offsets)
