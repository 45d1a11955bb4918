"""What a window is like as a whole: what the machines say, without what people decide."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from dashboards.measured import Levels, Measured
from dashboards.reports import Reports
from dashboards.signals import SignalCounts
from dashboards.windows import Window


class Glance(NamedTuple):
    """What was read of a window, of all segments."""

    measured: Measured
    signals: SignalCounts
    spend: list[dict[str, Any]]
    releases: list[dict[str, Any]]


class Before(NamedTuple):
    """What was read of the window before it."""

    levels: Levels
    signals: SignalCounts


async def glance(reports: Reports, window: Window) -> Glance:
    """Read what a window is like."""
    asked = {"before": before(window).since, "since": window.since, "until": window.until}
    return Glance(
        *await asyncio.gather(
            reports.measured(window),
            reports.signal_counts(window),
            reports.store.rows("judge_spend", asked),
            reports.store.rows("releases", {}),
        )
    )


async def glance_before(reports: Reports, window: Window) -> Before:
    """Read what the window before this one was like."""
    earlier = before(window)
    return Before(*await asyncio.gather(reports.levels(earlier), reports.signal_counts(earlier)))


def before(window: Window) -> Window:
    """Return the window of the same length that ends where this one begins."""
    return Window(window.since - (window.until - window.since), window.since)
