"""What a window is like as a whole: what the machines say, without what people decide."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from dashboards.reports import Reports
from dashboards.windows import Window


class Glance(NamedTuple):
    """Reports of a window, and of the one before it."""

    estimates: dict[str, Any]
    before: dict[str, Any]
    signals: dict[str, Any]
    signals_before: dict[str, Any]
    spend: list[dict[str, Any]]
    releases: list[dict[str, Any]]


async def glance(reports: Reports, window: Window, segment: str) -> Glance:
    """Return the reports of a window and of the one before it."""
    before = Window(window.since - (window.until - window.since), window.since)
    asked = {"before": before.since, "since": window.since, "until": window.until}
    return Glance(
        *await asyncio.gather(
            reports.estimates(window, segment),
            reports.levels(before, segment),
            reports.signals(window, segment),
            reports.signals(before, segment),
            reports.store.rows("judge_spend", asked),
            reports.store.rows("releases", {}),
        )
    )
