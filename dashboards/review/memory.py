"""Answers that are kept for some seconds: a week of a million requests takes long to sum up."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC, datetime, timedelta
from typing import Any

from dashboards.windows import Window

SECONDS = 30.0
_MOST = 64
_OPEN = timedelta(minutes=1)


class Memory:
    """What was worked out lately, by key. One per process.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changes = 0
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()

    async def get(self, key: Hashable, work_out: Callable[[], Awaitable[Any]]) -> Any:
        """Return what is kept under the key, or work it out and keep it for `SECONDS`."""
        if key in self._kept and self._clock() < self._kept[key][0]:
            return self._kept[key][1]
        started, changes = self._clock(), self._changes
        found = await work_out()
        if changes != self._changes:
            return found
        self._kept[key] = (started + SECONDS, found)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget everything, since somebody changed what it was worked out of."""
        self._changes += 1
        self._kept.clear()


def window_key(window: Window, now: datetime | None = None) -> Hashable:
    """Return what tells windows apart: the last seven days are the same a moment later."""
    now = now or datetime.now(UTC)
    if abs(now - window.until) < _OPEN:
        return ("until now", window.until - window.since)
    return (window.since, window.until)
