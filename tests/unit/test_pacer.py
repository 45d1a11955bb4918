"""Decisions under a budget: from the past, over restarts, and with complaints."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from collector.config import SamplingConfig
from collector.model import Decision, Span, Trace
from collector.pacer import Pacer
from collector.sampling import raised
from collector.telemetry import Metrics
from collector.timing import Patience
from tests.fakes.clocks import StoppedClock
from tests.fakes.store import MemoryStore

MIDNIGHT = datetime(2026, 11, 4, tzinfo=UTC)
PATIENTLY = Patience(asyncio.Event(), lambda _: None)
BUDGET = 240
BUDGETED = SamplingConfig(budget_per_day=BUDGET)
USUAL = 100
"""Requests of each hour of the past week."""


class History(MemoryStore):
    """A store in memory that counts requests by hour as the query `traffic_by_hour` does."""

    def __init__(self, per_hour: int = USUAL) -> None:
        super().__init__()
        self.seen: Counter[datetime] = Counter()
        self.drawn: Counter[datetime] = Counter()
        for hour in range(-8 * 24, 0):
            self.seen[MIDNIGHT + timedelta(hours=hour)] = per_hour

    async def rows(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """See `Store.rows`."""
        if query != "traffic_by_hour":
            return await super().rows(query, parameters)
        return [
            {
                "day": hour.date(),
                "hour": hour.hour,
                "requests": seen,
                "drawn": self.drawn[hour],
                "first_at": hour,
            }
            for hour, seen in sorted(self.seen.items())
            if seen and parameters["since"] <= hour < parameters["until"]
        ]


def trace(number: int, trace_state: str = "") -> Trace:
    trace_id = f"{number:032x}"
    span = Span(trace_id=trace_id, span_id="1" * 16, trace_state=trace_state)
    return Trace(trace_id=trace_id, spans=[span])


class Process:
    """One process that decides; what it decided is in the history for the next."""

    def __init__(self, history: History, config: SamplingConfig = BUDGETED) -> None:
        self.history = history
        self.clock = StoppedClock(MIDNIGHT)
        self.metrics = Metrics(CollectorRegistry())
        self.pacer = Pacer(history, config, self.metrics, self.clock)

    async def started(self, at: datetime) -> Process:
        self.clock.at = at
        await self.pacer.resume(PATIENTLY)
        return self

    def decide(self, at: datetime, number: int, **more: Any) -> Decision:
        self.clock.at = at
        asked: dict[str, Any] = {"segment": "lookup", "local_score": 0.5, "counted": True} | more
        made = self.pacer.decide(trace(number), **asked)
        hour = at.replace(minute=0, second=0, microsecond=0)
        self.history.seen[hour] += asked["counted"]
        self.history.drawn[hour] += asked["counted"] and made.sampled
        return made

    def traffic(self, start: datetime, hours: int, per_hour: int = USUAL) -> list[Decision]:
        return [
            self.decide(start + timedelta(hours=n / per_hour), round(start.timestamp()) + n)
            for n in range(hours * per_hour)
        ]


async def test_without_a_budget_the_rate_is_fixed_and_nothing_is_read() -> None:
    process = Process(History(), SamplingConfig(rate=0.3))
    await process.started(MIDNIGHT)
    made = process.decide(MIDNIGHT, 1)
    assert (made.probability, made.stratum, made.decided_at) == (0.3, "all", MIDNIGHT)
    assert process.pacer.complaint_rate() == 1.0


async def test_the_day_begins_with_the_pace_of_past_days() -> None:
    process = await Process(History()).started(MIDNIGHT)
    made = process.decide(MIDNIGHT, 1)
    assert made.probability == pytest.approx(BUDGET / (24 * USUAL))
    assert made.salt == BUDGETED.salt


async def test_upstream_sampling_multiplies_in() -> None:
    process = await Process(History()).started(MIDNIGHT)
    made = process.pacer.decide(trace(1, "ot=th:8"), segment=None, local_score=None, counted=True)
    assert made.probability == pytest.approx(0.5 * BUDGET / (24 * USUAL))
    assert made.upstream == 0.5


async def test_a_restart_goes_on_where_the_last_process_stopped() -> None:
    history, whole = History(), History()
    one = await Process(whole).started(MIDNIGHT)
    at_once = one.traffic(MIDNIGHT, 24)
    decisions = []
    for start in range(0, 24, 6):  # a new process every six hours
        process = await Process(history).started(MIDNIGHT + timedelta(hours=start))
        decisions += process.traffic(MIDNIGHT + timedelta(hours=start), 6)
    for made in (at_once, decisions):
        assert sum(one.sampled for one in made) == pytest.approx(BUDGET, rel=0.02)
    noon = Process(history)
    await noon.started(MIDNIGHT + timedelta(hours=23, minutes=59))
    spent = noon.metrics.judge_budget_spent._value.get()
    assert spent == sum(made.sampled for made in decisions)


async def test_two_processes_share_one_budget() -> None:
    history = History(2 * USUAL)
    pair = [await Process(history).started(MIDNIGHT) for _ in range(2)]
    drawn = 0
    for twelfth in range(24 * 12):
        start = MIDNIGHT + timedelta(minutes=5 * twelfth)
        for number, process in enumerate(pair):
            process.clock.at = start
            await process.pacer.share(PATIENTLY)
            for n in range(USUAL // 12):
                made = process.decide(start + timedelta(seconds=n), 100 * twelfth + 50 * number + n)
                drawn += made.sampled
    assert drawn == pytest.approx(BUDGET, rel=0.05)


async def test_each_day_has_a_budget_of_its_own() -> None:
    process = await Process(History()).started(MIDNIGHT)
    for day in range(3):
        made = process.traffic(MIDNIGHT + timedelta(days=day), 24)
        assert sum(one.sampled for one in made) == pytest.approx(BUDGET, rel=0.02)


async def test_what_cannot_be_judged_costs_no_budget() -> None:
    process = await Process(History()).started(MIDNIGHT)
    for number in range(500):
        process.decide(MIDNIGHT, number, counted=False)
    assert process.metrics.judge_budget_spent._value.get() == 0
    made = process.decide(MIDNIGHT, 1)
    assert made.probability == pytest.approx(BUDGET / (24 * USUAL))


async def test_the_floor_holds_whatever_the_traffic() -> None:
    config = SamplingConfig(budget_per_day=1, floor=0.01)
    process = await Process(History(), config).started(MIDNIGHT)
    assert {one.probability for one in process.traffic(MIDNIGHT, 2)} == {0.01}


async def test_where_the_judge_surprised_before_more_is_drawn_and_said_why() -> None:
    history = History()
    w = {"w": 400.0, "n": 200}
    history.results["residual_spread"] = [
        {"segment": "lookup", "bin": 1, "wl": 200.0, "wll": 200.0, **w},  # 0 or 1: .5
        {"segment": "lookup", "bin": 5, "wl": 40.0, "wll": 8.0, **w},  # 0 or .2 : .1
    ]
    process = await Process(history).started(MIDNIGHT)
    poor = process.decide(MIDNIGHT, 1, local_score=0.3)
    good = process.decide(MIDNIGHT, 2, local_score=1.0)
    assert poor.probability / good.probability == pytest.approx(2.0, rel=0.05)
    assert (poor.stratum, good.stratum) == ("bin 1", "bin 5")
    assert (poor.probability + good.probability) / 2 == pytest.approx(0.1, rel=0.02)


async def test_complaints_are_judged_at_most_four_times_as_often() -> None:
    process = await Process(History()).started(MIDNIGHT)
    assert process.pacer.complaint_rate() == pytest.approx(4 * BUDGET / (24 * USUAL))
    rare = SamplingConfig(budget_per_day=BUDGET, signal_rate=0.2)
    process = await Process(History(), rare).started(MIDNIGHT)
    assert process.pacer.complaint_rate() == 0.2


async def test_with_a_rate_that_moves_a_complaint_still_counts_once_on_average() -> None:
    # The pace falls as the day goes on; complaints come for every fifth request, an hour later.
    process = await Process(History(20 * USUAL)).started(MIDNIGHT)
    start, weights = MIDNIGHT, list[float]()
    pending, plain = list[Decision](), list[Decision]()
    for hour in range(24):
        pending, due = [], pending
        weights += [
            made.sampled / made.probability
            for before in due
            for made in [raised(before, process.pacer.complaint_rate())]
        ]
        for number, made in enumerate(process.traffic(start + timedelta(hours=hour), 1, 1000)):
            (pending if number % 5 == 0 else plain).append(made)
    rates = {round(made.probability, 3) for made in plain}
    assert len(rates) > 1
    # One each on average; the standard error of 4600 draws at about .04 is .07.
    assert sum(weights) / len(weights) == pytest.approx(1.0, abs=0.2)
    counted = [made.sampled / made.probability for made in plain]
    assert sum(counted) / len(counted) == pytest.approx(1.0, abs=0.2)


async def test_late_draws_are_part_of_the_budget() -> None:
    process = await Process(History()).started(MIDNIGHT)
    process.pacer.spent(BUDGET // 2)
    made = process.decide(MIDNIGHT, 1)
    assert made.probability == pytest.approx(BUDGET / 2 / (24 * USUAL))
