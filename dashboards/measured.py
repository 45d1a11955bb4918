"""What machines say of a window: read once, told for all segments or for one.

What people say of the judge comes in when it is told, so that a label shows at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from collector.model import FAITHFULNESS
from collector.ports import Store
from dashboards.calibration import correction_of
from dashboards.estimates import (
    WindowSums,
    covariate_of,
    segment_rows,
    total_row,
    wider_row,
)
from dashboards.windows import Window, wider_than
from scorers.calibration import Calibration
from scorers.stats.published import Published

Row = Mapping[str, Any]
_NO_TRUST = {"trust": "", "reason": ""}


class Asked(NamedTuple):
    """Whose scores are asked for; `segment` is "" for all."""

    scorer: str
    fingerprint: str
    segment: str = ""


class Levels(NamedTuple):
    """Accounting and sums of a window."""

    found: WindowSums

    def requests(self) -> int:
        """Return how many requests there are."""
        return sum(self.by_segment().values())

    def by_segment(self) -> dict[str, int]:
        """Return how many requests there are in each segment."""
        counted: dict[str, int] = {}
        for row in self.found.sums:
            counted[row["segment"]] = counted.get(row["segment"], 0) + int(row["requests"])
        return counted

    def rows(
        self, segment: str, trust: Mapping[str, str] = _NO_TRUST
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return one row over all, and one per segment; "" stands for all segments."""
        found = self.found.only(segment)
        return total_row(found, trust), segment_rows(found, trust)


class Measured(NamedTuple):
    """The same, and what is told beside it.

    `wider` are windows that are tried where this one holds too little, shortest first, by name.
    """

    window: Window
    asked: Asked
    levels: Levels
    wider: Sequence[tuple[str, Window, WindowSums]]
    calibration: Row
    changes: Sequence[Row]


async def levels_of(store: Store, asked: Asked, window: Window) -> Levels:
    """Read accounting and sums of a window."""
    return Levels(await sums_of_window(store, asked, window))


async def sums_of_window(store: Store, asked: Asked, window: Window) -> WindowSums:
    """Read the sums of a window."""
    parameters = _parameters(asked, window)
    return WindowSums(
        *await asyncio.gather(
            store.rows("estimate_sums", parameters), store.rows("conversation_sums", parameters)
        )
    )


async def measure(store: Store, asked: Asked, window: Window) -> Measured:
    """Read what machines say of a window."""
    judge = {"scorer": asked.scorer, "fingerprint": asked.fingerprint}
    judges = {"scorer": asked.scorer, "since": window.since, "until": window.until}
    levels, (calibration,), changes = await asyncio.gather(
        levels_of(store, asked, window),
        store.rows("calibrations", judge),
        store.rows("judge_changes", judges),
    )
    total, segments = levels.rows(asked.segment)
    scarce = {row.get("segment") for row in (total, *segments) if row["display"] != "normal"}
    wider = []
    for name, longer in wider_than(window):
        if not scarce:
            break
        found = await sums_of_window(store, asked, longer)
        wider.append((name, longer, found))
        scarce = {one for one in scarce if _of(found, one).estimate.display != "normal"}
    return Measured(window, asked, levels, wider, calibration, changes)


def told(measured: Measured, people: Calibration, segment: str = "") -> dict[str, Any]:
    """Return accounting and estimate per segment and over all.

    Args:
        measured: of a window.
        people: how far they agree with the judge.
        segment: only this one; "" for all.
    """
    window, asked = measured.window, measured.asked
    trust = {"trust": people.trust, "reason": people.reason}
    total, segments = measured.levels.rows(segment, trust)
    for row in (total, *segments):
        row["wider"] = _wider(measured, row, segment)
    found = measured.levels.found.only(segment)
    return {
        "since": window.since.isoformat(),
        "until": window.until.isoformat(),
        "scorer": asked.scorer,
        "judge": {
            "fingerprint": asked.fingerprint,
            **trust,
            "correction": correction_of(found.of_all().estimate, people),
        },
        "judge_changes": [{**row, "at": row["at"].isoformat()} for row in measured.changes],
        "covariate": covariate_of(
            found.sums, measured.calibration, predictable=asked.scorer == FAITHFULNESS
        ),
        "accounting_ok": total["accounting_ok"],
        "total": total,
        "segments": segments,
    }


def _wider(measured: Measured, row: Row, segment: str) -> dict[str, Any] | None:
    """Return the estimate of the shortest window that has enough, where this one has too few."""
    if row["display"] == "normal":
        return None
    for name, window, found in measured.wider:
        one = _of(found.only(segment), row.get("segment"))
        if one.estimate.display == "normal":
            return wider_row(name, window, one)
    return None


def _of(found: WindowSums, segment: str | None) -> Published:
    return found.of_all() if segment is None else found.of_segment(segment)


def _parameters(asked: Asked, window: Window) -> dict[str, Any]:
    return {**asked._asdict(), "since": window.since, "until": window.until}
