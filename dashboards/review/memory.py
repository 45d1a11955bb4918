"""What was worked out lately: a week of a million requests takes long to sum up."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import structlog

from collector.errors import DependencyError
from dashboards.windows import Window

log = structlog.get_logger(__name__)

FRESH = 30.0
SETTLED = 3600.0
OLDEST = 2 * SETTLED
"""Seconds: what is younger than `FRESH` is given out as it is, of a week that is over what is
younger than `SETTLED`; what is older than `OLDEST` never."""
PAUSE = 20
"""What took so long is not renewed before so many times that have passed."""
_MOST = 64
_OPEN = timedelta(minutes=1)
_OVER = timedelta(days=1)

Work = Callable[[], Awaitable[Any]]


class Kept(NamedTuple):
    """What was worked out, and as of when; `began` and `took` in seconds of the clock."""

    value: Any
    at: datetime
    began: float
    took: float


class Memory:
    """What was worked out lately, by key. One per process.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._under_way: dict[Hashable, asyncio.Task[Kept]] = {}
        self._due: dict[Hashable, Work] = {}
        self._renewal: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def get(
        self, key: Hashable, work_out: Work, *, fresh: float = FRESH, oldest: float = FRESH
    ) -> Kept:
        """Return what is kept under the key, or work it out.

        Args:
            key: to keep it under.
            work_out: what is asked for.
            fresh: seconds for which it is good as it is.
            oldest: seconds for which it is given out once more while it is renewed behind, one
                thing after the other.
        """
        if (kept := self.kept(key, max(fresh, oldest))) is None:
            return await self._fill(key, work_out)
        if self._age(kept) >= max(fresh, PAUSE * kept.took):
            self._due[key] = work_out
            if self._renewal is None or self._renewal.done():
                self._renewal = asyncio.create_task(self._renew())
        return kept

    def kept(self, key: Hashable, oldest: float) -> Kept | None:
        """Return what is kept under the key, unless it is so many seconds old."""
        kept = self._kept.get(key)
        return kept if kept is not None and self._age(kept) < oldest else None

    async def renew(self, key: Hashable, work_out: Work) -> Kept:
        """Work it out and keep it, when it is its turn: one thing at once is renewed."""
        async with self._turn:
            return await self._fill(key, work_out)

    async def _fill(self, key: Hashable, work_out: Work) -> Kept:
        """Work it out and keep it; who asks for the same meanwhile waits for the same."""
        if key not in self._under_way:
            task = asyncio.create_task(self._work(key, work_out))
            self._under_way[key] = task
            task.add_done_callback(partial(self._ended, key))
        return await asyncio.shield(self._under_way[key])

    def _ended(self, key: Hashable, task: asyncio.Task[Kept]) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen, even where nobody waits any more, as when the agent stops

    async def _work(self, key: Hashable, work_out: Work) -> Kept:
        at, began = datetime.now(UTC), self._clock()
        kept = Kept(await work_out(), at, began, self._clock() - began)
        self._kept[key] = kept
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return kept

    async def _renew(self) -> None:
        while self._due:
            key = next(iter(self._due))
            try:
                await self.renew(key, self._due.pop(key))
            except DependencyError as err:
                log.warning("review_not_renewed", error=str(err))

    def _age(self, kept: Kept) -> float:
        return self._clock() - kept.began


def window_key(window: Window, now: datetime | None = None) -> Hashable:
    """Return what tells windows apart: the last seven days are the same a moment later."""
    now = now or datetime.now(UTC)
    if abs(now - window.until) < _OPEN:
        return ("until now", window.until - window.since)
    return (window.since, window.until)


def freshness(window: Window, now: datetime | None = None) -> float:
    """Return the seconds for which numbers of a window are good as they are."""
    over = (now or datetime.now(UTC)) - window.until > _OVER
    return SETTLED if over else FRESH
