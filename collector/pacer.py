"""Decides which requests are judged: at a fixed rate, or so that a budget a day is spent evenly.

With a budget the store is read at the start and now and then: past days make the forecast, past
judgements say where the judge surprises, and what was decided of the running day makes a restart
go on where the last process stopped, and several processes share one budget. In between everything
is counted in memory.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import structlog

from collector.config import SamplingConfig
from collector.model import Decision, Trace
from collector.pacing import (
    HOURS,
    UNIFORM,
    Day,
    Forecast,
    Spread,
    bin_of,
    hour_of,
    pace,
    probability,
)
from collector.ports import Store
from collector.sampling import decide
from collector.telemetry import Metrics
from collector.timing import Clock, Patience

_SHARE_SECONDS = 300.0
_SHARES_PER_LESSON = 12
_PROFILE_DAYS = 7
"""One of each day of the week."""
_SPREAD_DAYS = 14

COMPLAINT_FACTOR = 4.0
"""With a budget, requests with a complaint are judged this many times as often as the others, at
most. Beyond that the overall mean gets less exact: complaints are few, and cost what all need."""

log = structlog.get_logger()


class Pacer:
    """The sampling decisions of one process.

    Args:
        store: where the past is.
        config: the fixed rate, or the budget and its floor.
        metrics: where the budget and what was spent of it are shown.
        clock: the time; days are UTC days.
    """

    def __init__(
        self, store: Store, config: SamplingConfig, metrics: Metrics, clock: Clock
    ) -> None:
        self._store = store
        self._config = config
        self._metrics = metrics
        self._clock = clock
        # Without any past the rate says what to expect.
        self._usual = (config.budget_per_day or 0) / config.rate
        self._forecast = Forecast.of([], self._usual)
        self._spread = UNIFORM
        now = clock.now()
        self._day = Day(now.date(), since=hour_of(now))
        if config.budget_per_day is not None:
            metrics.judge_budget.set(config.budget_per_day)

    def decide(
        self, trace: Trace, *, segment: str | None, local_score: float | None, counted: bool
    ) -> Decision:
        """Decide on a request that is seen for the first time.

        Args:
            trace: its trace.
            segment: of the request.
            local_score: the free score in [0, 1], None where there is none.
            counted: whether it can be judged, so that drawing it costs a judgement.
        """
        now = self._clock.now()
        salt = self._config.salt
        if self._config.budget_per_day is None:
            return decide(trace, self._config.rate, salt, now)
        bin = bin_of(local_score)
        spread = self._spread(segment or "unknown", bin)
        rate = probability(self.pace(now), spread, self._config.floor)
        decision = decide(trace, rate, salt, now, f"bin {bin}" if self._spread.relative else "all")
        if counted:
            self._day.seen += 1
            self.spent(int(decision.sampled))
        return decision

    def pace(self, now: datetime) -> float:
        """Return the probability of an average request at this time."""
        budget = float(self._config.budget_per_day or 0)
        return pace(budget, self._forecast, self._today(now), hour_of(now))

    def _today(self, now: datetime) -> Day:
        if self._day.date != now.date():
            self._day = Day(now.date())
            self.spent(0)
        return self._day

    def complaint_rate(self) -> float:
        """Return the probability to which a complaint raises that of its request."""
        if self._config.budget_per_day is None:
            return self._config.signal_rate
        return min(self._config.signal_rate, COMPLAINT_FACTOR * self.pace(self._clock.now()))

    def spent(self, judgements: int) -> None:
        """Count judgements that were asked for today."""
        self._day.drawn += judgements
        self._metrics.judge_budget_spent.set(self._day.drawn)

    async def follow(self, stop: asyncio.Event, patiently: Patience) -> None:
        """Count what others decide every five minutes, and learn every hour, until `stop`."""
        for turn in count(1):
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _SHARE_SECONDS)
            if stop.is_set() or self._config.budget_per_day is None:
                return
            await self.share(patiently)
            if turn % _SHARES_PER_LESSON == 0:
                await self.learn(patiently)

    async def resume(self, patiently: Patience) -> None:
        """Take up the running day where the last process left it, and learn from the past."""
        if self._config.budget_per_day is not None:
            await self.share(patiently)
            await self.learn(patiently)

    async def share(self, patiently: Patience) -> None:
        """Count what is stored of the running day, where that is more than this process knows."""
        now = self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        asked = {"since": midnight, "until": now}
        if today := await patiently(self._store.rows, "traffic_by_hour", asked):
            day = self._today(now)
            day.since = min(day.since, *(hour_of(row["first_at"]) for row in today))
            day.seen = max(day.seen, sum(int(row["requests"]) for row in today))
            day.drawn = max(day.drawn, sum(int(row["drawn"]) for row in today))
            self.spent(0)

    async def learn(self, patiently: Patience) -> None:
        """Renew the forecast and the spread from what is stored by now."""
        now = self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        traffic = await patiently(
            self._store.rows,
            "traffic_by_hour",
            {"since": midnight - timedelta(days=_PROFILE_DAYS), "until": midnight},
        )
        judged = await patiently(
            self._store.rows,
            "residual_spread",
            {"since": now - timedelta(days=_SPREAD_DAYS), "until": now, "scorer": "faithfulness"},
        )
        self._forecast = Forecast.of(whole_days(traffic), self._usual)
        self._spread = Spread.of(judged)


def whole_days(rows: list[dict[str, Any]]) -> list[list[float]]:
    """Return 24 counts for each day in rows of `traffic_by_hour`.

    The first day is left out while there are others: monitoring began somewhere within it.
    """
    days: dict[Any, list[float]] = {}
    for row in rows:
        days.setdefault(row["day"], [0.0] * HOURS)[int(row["hour"])] = float(row["requests"])
    counts = [days[day] for day in sorted(days)]
    return counts[1:] if len(counts) > 1 else counts
