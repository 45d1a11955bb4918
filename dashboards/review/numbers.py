"""The numbers of weeks, kept while they are good: a page does not wait for a million requests."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from collector.errors import DependencyError
from dashboards.measured import told
from dashboards.reports import Reports
from dashboards.review.glance import Before, Glance, before, glance, glance_before
from dashboards.review.memory import (
    FRESH,
    OLDEST,
    PAUSE,
    SETTLED,
    Kept,
    Memory,
    freshness,
    window_key,
)
from dashboards.review.week import changes, deployed, forecast
from dashboards.signals import signals_told
from dashboards.windows import Window, default_span, last
from scorers.calibration import Calibration

MOST_LISTED = 500
"""Conversations of a week that are looked through, worst first."""
LISTED = 20
"""Conversations that the page lists where nothing else is asked for."""
_SEGMENTS = 24
"""Segments, those with the most requests, whose lists are worked out before anybody asks."""
_MANY = 20_000
"""Requests of a window from which on its numbers may be old: counting them takes long."""
_WARM_SECONDS = 300.0
_TICK_SECONDS = 60.0
_NOT_LISTED = {"documents", "claims", "citations", "signals"}
"""Columns of the query `worst` that no list shows: they may be long."""


class Seen(NamedTuple):
    """A window beside the one before it, and as of when it was read."""

    glance: Glance
    before: Before
    at: datetime


class Numbers:
    """What machines say of weeks. One per process.

    Where there are few requests they are counted anew after `memory.FRESH`. Else what is older is
    given out once more and renewed behind.

    Args:
        reports: where data come from.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._memory = Memory()
        self._looked = -math.inf
        self._many = False

    async def seen(self, window: Window) -> Seen:
        """Return a window and the one before it."""
        self._looked = time.monotonic()
        (kept, at), earlier = await asyncio.gather(self._glance(window), self._before(window))
        return Seen(kept, earlier, at)

    async def worst(self, window: Window, segment: str, most: int) -> Kept:
        """Return the worst conversations, rows of the query `worst` without its long columns.

        A longer list that is kept is as good: the shorter one is its beginning.
        """
        ages, key = self._ages(window), window_key(window)
        whole = ("worst", segment, max(most, MOST_LISTED), key)
        there = self._memory.kept(whole, ages.get("oldest", FRESH))
        size = whole[2] if there else most
        kept = await self._memory.get(
            ("worst", segment, size, key), partial(self._ranked, window, segment, size), **ages
        )
        return kept._replace(value=kept.value[:most])

    async def keep_warm(self) -> None:
        """Work out what the page opens with: at once, then as often as people look at it.

        Never ends. Where there are few requests it does so once an hour, to find out.
        """
        began, took = -math.inf, 0.0
        while True:
            now = time.monotonic()
            used = self._many and now - self._looked < SETTLED
            if now - began >= max(_WARM_SECONDS if used else SETTLED, PAUSE * took):
                began = now
                with suppress(DependencyError):  # whoever looks at the page is told
                    await self.warm()
                took = time.monotonic() - began
            await asyncio.sleep(_TICK_SECONDS)

    async def warm(self) -> None:
        """Work it out now; where there are many requests, all that the page may ask for."""
        found, _ = await self._glance(_opening(), renew=True)
        if self._many:
            await self._before(_opening())
            await self._renew_list("", MOST_LISTED)
            sizes = found.measured.levels.by_segment()
            for segment in sorted(sizes, key=lambda name: (-sizes[name], name))[:_SEGMENTS]:
                await self._renew_list(segment, LISTED)

    async def _renew_list(self, segment: str, most: int) -> None:
        window = _opening()
        key = ("worst", segment, most, window_key(window))
        await self._memory.renew(key, partial(self._ranked, window, segment, most))

    async def _glance(self, window: Window, *, renew: bool = False) -> tuple[Glance, datetime]:
        key, work_out = ("glance", window_key(window)), partial(glance, self._reports, window)
        if renew:
            kept = await self._memory.renew(key, work_out)
        else:
            kept = await self._memory.get(key, work_out, **self._ages(window))
        found: Glance = kept.value
        self._many = found.measured.levels.requests() >= _MANY
        return found, kept.at

    async def _before(self, window: Window) -> Before:
        key, work_out = (
            ("before", window_key(window)),
            partial(glance_before, self._reports, window),
        )
        ages = self._ages(window)
        if self._many:
            ages["fresh"] = SETTLED  # what is over hardly changes
        found: Before = (await self._memory.get(key, work_out, **ages)).value
        return found

    async def _ranked(self, window: Window, segment: str, most: int) -> list[dict[str, Any]]:
        rows = await self._reports.worst(window, segment, most)
        return [{key: row[key] for key in row if key not in _NOT_LISTED} for row in rows]

    def _ages(self, window: Window) -> dict[str, float]:
        return {"fresh": freshness(window), "oldest": OLDEST} if self._many else {}


def _opening() -> Window:
    """Return the window that the page opens with, as it is now."""
    return last(default_span("review"), datetime.now(UTC))


def numbers_told(
    seen: Seen, window: Window, people: Calibration, segment: str, now: datetime | None
) -> dict[str, Any]:
    """Return what is told of a window beside the one before it.

    Args:
        seen: of the window.
        window: to look at.
        people: how far they agree with the judge.
        segment: only this one; "" for all.
        now: the time, for a forecast where the window is not over.
    """
    found = seen.glance
    estimates = told(found.measured, people, segment)
    total, segments = seen.before.levels.rows(segment)
    levels = {"total": total, "segments": segments}
    (spent,) = found.spend
    return {
        "estimates": estimates,
        "before": levels,
        "signals": signals_told(window, found.signals, segment),
        "signals_before": signals_told(before(window), seen.before.signals, segment),
        "spend": {**spent, "forecast": forecast(spent["usd"], window, now)},
        "changes": changes(estimates, levels) + deployed(found.releases, window),
    }
