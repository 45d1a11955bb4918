"""The page for faithfulness: a healthy month is quiet, a drop is seen, restarts lose nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from collector.config import AlertsConfig, StoreConfig
from collector.errors import TransientDependencyError
from collector.model import Judgement
from collector.ports import Store
from collector.telemetry import Metrics
from collector.timing import Patience
from dashboards.faithfulness_watch import FaithfulnessWatch
from sinks.clickhouse import ClickHouseStore
from tests.fakes.clocks import StoppedClock
from tests.fakes.drawn import DrawnStore, hours_of
from tests.fakes.store import decision, stored

START = datetime(2026, 11, 1, tzinfo=UTC)
LAG = timedelta(minutes=5)
CONFIG = AlertsConfig(faithfulness=0.91)
MAX_WAIT_HOURS = 6.0


class Agent:
    """The watch on a clock that a test moves; what is in the store survives a restart."""

    def __init__(self, store: Store, start: datetime = START) -> None:
        self.store = store
        self.clock = StoppedClock(start)
        self.patiently = Patience(asyncio.Event(), lambda _: None)
        self.restart()

    def restart(self) -> None:
        self.metrics = Metrics(CollectorRegistry())
        self.watch = FaithfulnessWatch(
            self.store, "judge-1", CONFIG, MAX_WAIT_HOURS, self.metrics, self.clock
        )

    async def until(self, at: datetime) -> None:
        self.clock.at = at + LAG
        while await self.watch.advance(self.patiently):
            pass

    def evidence(self) -> dict[str, tuple[float, float]]:
        """Return evidence and threshold by segment, as Prometheus sees them."""
        shown = [
            {s.labels["segment"]: s.value for family in gauge.collect() for s in family.samples}
            for gauge in (self.metrics.evidence, self.metrics.evidence_threshold)
        ]
        return {segment: (value, shown[1][segment]) for segment, value in shown[0].items()}

    def paging(self) -> set[str]:
        return {segment for segment, (value, bound) in self.evidence().items() if value >= bound}


async def test_a_healthy_month_in_eight_segments_has_one_page_at_most() -> None:
    rng = np.random.default_rng(11)
    agent = Agent(
        DrawnStore(
            [
                row
                for n in range(8)
                for row in hours_of(rng, 0.92, START, 720, 20, segment=f"segment {n}")
            ]
        )
    )
    await agent.until(START)
    pages, before = 0, set[str]()
    for hour in range(720):
        if hour % 24 == 7:
            agent.restart()
        await agent.until(START + timedelta(hours=hour + 1))
        pages += len(agent.paging() - before)
        before = agent.paging()
    assert pages <= 1
    threshold = {bound for _, bound in agent.evidence().values()}.pop()
    assert threshold == pytest.approx(8 * 20 * 24 * 24, rel=0.02)
    assert len(agent.evidence()) == 8


async def hours_to_page(rows: list[dict[str, Any]], drop: datetime) -> float:
    """Return how long after a drop the page comes, looking every five minutes."""
    agent = Agent(DrawnStore(rows))
    await agent.until(START)
    await agent.until(drop)
    agent.restart()
    for minutes in range(0, 48 * 60, 5):
        await agent.until(drop + timedelta(minutes=minutes))
        if agent.paging():
            return minutes / 60
    return 48.0


@pytest.mark.parametrize(("per_hour", "within"), [(20, 8), (60, 3)])
async def test_a_drop_of_seven_points_pages_in_time(per_hour: int, within: int) -> None:
    drop = START + timedelta(days=3)
    delays = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = hours_of(rng, 0.92, START, 72, per_hour) + hours_of(rng, 0.85, drop, 48, per_hour)
        delays.append(await hours_to_page(rows, drop))
    # About 141 answers at 20 an hour and 175 at 60, over many drops.
    assert np.median(delays) <= within
    assert max(delays) < 48


async def test_a_replay_after_a_crash_gives_the_same_evidence() -> None:
    rows = hours_of(np.random.default_rng(3), 0.85, START, 5, 60)
    unsafe = DrawnStore(rows)
    whole, crashing = Agent(DrawnStore(rows)), Agent(unsafe)
    await whole.until(START)
    await crashing.until(START)
    for hour in range(1, 6):
        await whole.until(START + timedelta(hours=hour))
        unsafe.fail_next(1, TransientDependencyError("down"), after_writing=hour % 2 == 0)
        await crashing.until(START + timedelta(hours=hour, minutes=-20))
        crashing.restart()
        await crashing.until(START + timedelta(hours=hour))
    assert crashing.evidence() == whole.evidence()
    assert whole.evidence()


async def test_answers_in_the_real_store_page_and_a_restart_goes_on(tmp_path: Path) -> None:
    metrics = Metrics(CollectorRegistry())
    store = await ClickHouseStore.open(f"chdb://{tmp_path / 'store'}", StoreConfig(), metrics)
    try:
        rows = hours_of(np.random.default_rng(5), 0.6, START, 2, 100)
        await store.write_requests(
            [
                stored(
                    row["trace_id"],
                    started_at=row["decided_at"],
                    decided=decision(probability=0.1, decided_at=row["decided_at"]),
                    service=row["service"],
                    segment=row["segment"],
                )
                for row in rows
            ]
        )
        await store.write_judgements(
            [
                Judgement(
                    trace_id=row["trace_id"],
                    scorer="faithfulness",
                    fingerprint="judge-1",
                    status="judged",
                    score=row["score"],
                    request_version=1,
                    judged_at=row["decided_at"],
                )
                for row in rows
            ],
            {},
        )
        agent, simulated = Agent(store), Agent(DrawnStore(rows))
        for one in (agent, simulated):
            await one.until(START)
            await one.until(START + timedelta(hours=1))
            one.restart()
            await one.until(START + timedelta(hours=2))
        assert agent.paging() == {"lookup"}
        assert agent.evidence()["lookup"] == pytest.approx(simulated.evidence()["lookup"])
    finally:
        await store.close()


async def test_what_the_judge_has_not_answered_yet_is_waited_for() -> None:
    rows = hours_of(np.random.default_rng(4), 0.85, START, 2, 60)
    slow = rows[30]
    slow["state"] = ""
    agent = Agent(DrawnStore(rows))
    await agent.until(START)
    await agent.until(START + timedelta(hours=2))
    held = agent.metrics.evidence_timestamp._value.get()
    assert held < slow["decided_at"].timestamp()
    slow["state"] = "judged"
    await agent.until(START + timedelta(hours=2))
    prompt = Agent(DrawnStore(rows))
    await prompt.until(START)
    await prompt.until(START + timedelta(hours=2))
    assert agent.evidence() == prompt.evidence()


async def test_a_judgement_that_never_comes_does_not_hold_the_watch_for_ever() -> None:
    rows = hours_of(np.random.default_rng(4), 0.85, START, 2, 60)
    rows[30]["state"] = ""
    agent = Agent(DrawnStore(rows))
    await agent.until(START)
    await agent.until(START + timedelta(hours=9))
    reached = agent.metrics.evidence_timestamp._value.get()
    assert reached == (START + timedelta(hours=9)).timestamp()


async def test_failures_and_unscored_answers_are_no_evidence() -> None:
    rows = hours_of(np.random.default_rng(4), 0.85, START, 2, 60)
    for row in rows:
        row |= {"state": "failed", "score": 0.0}
    agent = Agent(DrawnStore(rows))
    await agent.until(START)
    await agent.until(START + timedelta(hours=2))
    assert agent.evidence() == {}


async def test_another_judge_brings_no_evidence_along() -> None:
    rows = hours_of(np.random.default_rng(4), 0.6, START, 2, 60)
    agent = Agent(DrawnStore(rows))
    await agent.until(START)
    await agent.until(START + timedelta(hours=1))
    assert agent.evidence()
    metrics = Metrics(CollectorRegistry())
    other = FaithfulnessWatch(agent.store, "judge-2", CONFIG, MAX_WAIT_HOURS, metrics, agent.clock)
    await other.advance(agent.patiently)
    assert [family.samples for family in metrics.evidence.collect()] == [[]]
