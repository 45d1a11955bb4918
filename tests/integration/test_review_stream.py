"""The worst requests are judged for the review, and no number moves for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from collector.config import Config, StoreConfig
from collector.model import Document, Judgement, JudgeTask, StoredRequest
from collector.ports import JUDGE
from collector.review_stream import ReviewStream, allowance, is_in_use
from collector.sampling import raised
from collector.telemetry import Metrics
from collector.timing import Patience
from dashboards.reports import Reports
from dashboards.windows import Window
from sinks.clickhouse import ClickHouseStore
from tests.fakes.clocks import StoppedClock
from tests.fakes.journal import MemoryJournal
from tests.fakes.pipeline import Pipeline
from tests.fakes.store import decision, stored

PATIENTLY = Patience(asyncio.Event(), lambda _: None)
# Today, because what is judged now is judged by the real clock.
MIDNIGHT = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
AT = MIDNIGHT + timedelta(hours=12)
WINDOW = Window(MIDNIGHT - timedelta(days=1), MIDNIGHT + timedelta(days=2))
CAP = 6


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ClickHouseStore]:
    metrics = Metrics(CollectorRegistry())
    opened = await ClickHouseStore.open(f"chdb://{tmp_path / 'store'}", StoreConfig(), metrics)
    try:
        yield opened
    finally:
        await opened.close()


def undrawn(number: int, lexical: float, **changes: Any) -> StoredRequest:
    fields: dict[str, Any] = {
        "started_at": AT - timedelta(hours=2),
        "decided": decision(sampled=False, probability=0.1, uniform=0.9, decided_at=AT),
        "lexical_score": lexical,
        "segment": "lookup",
        "question": "Is SSO part of Pro?",
        "answer": "Yes.",
        "documents": [Document(rank=1, text="SSO is an add-on.")],
    }
    return stored(f"{number:032x}", 2, **(fields | changes))


class Agent:
    """The stream beside a pipeline that judges what it asks for; `at` is its clock."""

    def __init__(self, store: ClickHouseStore) -> None:
        self.store = store
        self.pipeline = Pipeline(store, {"sampling": {"rate": 0.1, "review_per_day": CAP}})
        self.pipeline.judge.rule = lambda _: 0.0
        self.clock = StoppedClock(AT)
        self.reports = Reports(store, self.pipeline.judge.fingerprint)
        self.restart()

    def restart(self) -> None:
        self.metrics = Metrics(CollectorRegistry())
        self.stream = ReviewStream(
            self.store,
            MemoryJournal(self.pipeline.log),
            self.pipeline.judge.fingerprint,
            self.pipeline.config,
            self.metrics,
            self.clock,
        )

    async def choose(self, at: datetime) -> list[int]:
        self.clock.at = at
        return [int(trace_id, 16) for trace_id in await self.stream.choose(PATIENTLY)]

    async def judged(self) -> None:
        async with self.pipeline.running():
            await self.pipeline.until_idle()


async def test_the_worst_are_judged_first_and_no_more_than_the_cap_allows(
    store: ClickHouseStore,
) -> None:
    agent = Agent(store)
    await store.write_requests([undrawn(n, lexical=n / 20) for n in range(1, 13)])
    assert await agent.choose(AT) == [1, 2, 3]  # half a day, half the cap
    assert await agent.choose(AT) == []
    assert await agent.choose(AT + timedelta(hours=4)) == [4]
    assert await agent.choose(AT + timedelta(hours=11)) == [5]
    assert agent.metrics.review_judgements._value.get() == 5


async def test_a_restart_knows_what_was_asked_today(store: ClickHouseStore) -> None:
    agent = Agent(store)
    await store.write_requests([undrawn(n, lexical=n / 20) for n in range(1, 13)])
    assert await agent.choose(AT) == [1, 2, 3]
    await agent.judged()
    agent.restart()
    assert await agent.choose(AT) == []
    assert await agent.choose(AT + timedelta(hours=4)) == [4]


async def test_it_shows_in_the_review_and_in_no_estimate(store: ClickHouseStore) -> None:
    agent = Agent(store)
    drawn = undrawn(
        99, 1.0, decided=decision(sampled=True, probability=0.1, uniform=0.05, decided_at=AT)
    )
    await store.write_requests([undrawn(1, 0.1), undrawn(2, 0.9), drawn])
    await store.write_judgements(
        [
            Judgement(
                trace_id=drawn.request.trace_id,
                scorer="faithfulness",
                fingerprint=agent.pipeline.judge.fingerprint,
                status="judged",
                score=1.0,
                request_version=2,
                judged_at=AT,
            )
        ],
        {},
    )
    before = await agent.reports.estimates(WINDOW)
    assert await agent.choose(AT) == [1, 2]
    (first, *_) = agent.pipeline.log.records[JUDGE]
    task = msgspec.msgpack.decode(first.body, type=JudgeTask)
    assert (task.counted, task.purpose, task.request.trace_id) == (False, "review", f"{1:032x}")
    await agent.judged()

    after = await agent.reports.estimates(WINDOW)
    assert after["total"] == before["total"]
    assert after["segments"] == before["segments"]
    assert after["accounting_ok"]
    assert (after["total"]["judged"], after["total"]["not_sampled"]) == (1, 2)
    assert agent.pipeline.count("requests_judged_total") == 0
    assert agent.pipeline.count("accounting_difference") == 0

    shown = (await agent.reports.review(WINDOW))["conversations"]
    claims = {item["worst_trace_id"]: item["turns"][0]["claims"] for item in shown}
    assert [claim["verdict"] for claim in claims[f"{1:032x}"]] == ["NOT_FOUND"]
    assert {item["score"] for item in shown if item["worst_trace_id"] != f"{99:032x}"} == {0.0}


async def test_a_later_draw_counts_it_with_the_weight_of_that_draw(store: ClickHouseStore) -> None:
    agent = Agent(store)
    row = undrawn(1, 0.1)
    await store.write_requests([row])
    assert await agent.choose(AT) == [1]
    await agent.judged()
    drawn = msgspec.structs.replace(row, decision=raised(row.decision, 0.95), version=3)
    await store.write_requests([drawn])
    total = (await agent.reports.estimates(WINDOW))["total"]
    assert (total["judged"], total["not_sampled"], total["n_eff"]) == (1, 0, 1.0)


async def test_what_the_judge_sees_anyway_or_cannot_see_is_not_asked_for(
    store: ClickHouseStore,
) -> None:
    agent = Agent(store)
    waiting = undrawn(
        1, 0.1, decided=decision(sampled=True, probability=0.1, uniform=0.05, decided_at=AT)
    )
    nothing = undrawn(2, 0.1, ineligible="no_context")
    young = undrawn(3, 0.1, started_at=AT - timedelta(minutes=5))
    await store.write_requests([waiting, nothing, young, undrawn(4, 0.3)])
    assert await agent.choose(AT) == [4]


def test_the_cap_opens_with_the_day() -> None:
    hours = [allowance(24, timedelta(hours=hour)) for hour in (0, 1, 12, 23.99)]
    assert hours == [0, 1, 12, 23]


@pytest.mark.parametrize(
    ("config", "used"),
    [
        ({}, False),
        ({"sampling": {"review_per_day": 10}}, True),
        ({"sampling": {"review_per_day": 10}, "store": {"content": "none"}}, False),
    ],
)
def test_without_a_cap_or_without_texts_nothing_is_asked(
    config: dict[str, Any], used: bool
) -> None:
    assert is_in_use(Config.model_validate(config)) is used
