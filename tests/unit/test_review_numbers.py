"""What the week view has at hand before anybody asks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from dashboards.estimates import WindowSums
from dashboards.measured import Asked, Levels, Measured
from dashboards.reports import Reports
from dashboards.review.numbers import MOST_LISTED, Numbers
from dashboards.signals import SignalCounts
from dashboards.windows import Window, last


class Busy:
    """As `Reports` of a store with many requests, or with few; notes whose list is asked for."""

    def __init__(self, **requests: int) -> None:
        sums = [{"segment": name, "requests": count} for name, count in requests.items()]
        self._levels = Levels(WindowSums(sums, []))
        self.asked: list[tuple[str, int]] = []
        self.store = self

    async def rows(self, _query: str, _parameters: Any) -> list[dict[str, Any]]:
        return []

    async def measured(self, window: Window) -> Measured:
        return Measured(window, Asked("faithfulness", "judge"), self._levels, [], {}, [])

    async def levels(self, _window: Window) -> Levels:
        return self._levels

    async def signal_counts(self, _window: Window) -> SignalCounts:
        return SignalCounts([], [])

    async def worst(self, _window: Window, segment: str, limit: int) -> list[dict[str, Any]]:
        self.asked.append((segment, limit))
        return [{"conversation": f"the worst of {segment or 'all'}"}] * limit


def _week() -> Window:
    return last("7d", datetime.now(UTC))


async def test_with_many_requests_each_list_is_there_before_anybody_looks() -> None:
    busy = Busy(billing=15_000, login=30_000)
    numbers = Numbers(cast("Reports", busy))
    await numbers.warm()
    worked_out = [("", MOST_LISTED), ("login", 20), ("billing", 20)]
    assert busy.asked == worked_out
    for segment in ("", "login", "billing"):
        kept = await numbers.worst(_week(), segment, 20)
        assert len(kept.value) == 20
    assert (await numbers.worst(_week(), "login", 20)).value[0]["conversation"].endswith("login")
    assert busy.asked == worked_out


async def test_with_few_requests_a_list_is_read_when_it_is_asked_for() -> None:
    few = Busy(billing=150)
    numbers = Numbers(cast("Reports", few))
    await numbers.warm()
    assert few.asked == []
    await numbers.worst(_week(), "billing", 20)
    assert few.asked == [("billing", 20)]
