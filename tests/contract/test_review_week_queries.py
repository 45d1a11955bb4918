"""What the week view reads beside the estimates, from the real engine: money and deployments."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from collector.config import ReviewConfig
from collector.model import Judgement
from collector.model.judgement import Usage
from collector.releases import Release, write_release
from dashboards.measured import told
from dashboards.reports import Reports
from dashboards.review.desk import Desk
from dashboards.windows import Window
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, decision, stored

WEEK = Window(AT - timedelta(days=3), AT + timedelta(days=4))


@pytest.fixture(scope="module")
def desk(clickhouse: ClickHouseStore) -> Desk:
    asyncio.run(fill(clickhouse))
    return Desk(Reports(clickhouse, "a"), ReviewConfig())


async def fill(store: ClickHouseStore) -> None:
    in_week, before, long_ago = AT, AT - timedelta(days=5), AT - timedelta(days=11)
    paid = [
        judged("one", in_week, 0.5, 3),
        judged("one", in_week, 0.5, 3),  # written twice
        judged("one", in_week, 0.25, 1, scorer="refusal"),
        judged("two", in_week, 1.0, 2, fingerprint="b"),
        judged("two", in_week, None, 0),  # a judge that asks no model
        judged("three", in_week, None, 4),  # of unknown price
        judged("four", before, 0.125, 1),
        judged("five", long_ago, 64.0, 1),
        # Judged in this week, asked in the last.
        judged("six", WEEK.since + timedelta(hours=1), 0.25, 1),
    ]
    asked = {one.trace_id: one.judged_at or AT for one in paid}
    asked["six"] = WEEK.since - timedelta(hours=1)
    await store.write_requests([stored(name, started_at=at) for name, at in asked.items()])
    for one in paid:
        await store.write_judgements([one], asked)
    for service, version, day in (
        ("bot", "1", -6),
        ("bot", "2", 1),
        ("bot", "2", 2),  # by another process
        ("other", "9", 1),
    ):
        await write_release(store, Release(service, version, AT + timedelta(days=day)))


def judged(
    name: str,
    at: datetime,
    usd: float | None,
    calls: int,
    *,
    scorer: str = "faithfulness",
    fingerprint: str = "a",
    score: float = 1.0,
) -> Judgement:
    return Judgement(
        trace_id=name,
        scorer=scorer,
        fingerprint=fingerprint,
        status="judged",
        score=score,
        usage=Usage(cost_usd=usd, calls=calls),
        request_version=1,
        judged_at=at,
    )


async def test_money_counts_in_the_week_in_which_it_was_spent(desk: Desk) -> None:
    found = (await desk.week(WEEK, now=WEEK.since + timedelta(days=3.5)))["spend"]
    assert found == {
        "usd": 2.0,
        "usd_before": 0.125,
        "calls": 11,
        "calls_before": 1,
        "unpriced": 1,
        "unpriced_before": 0,
        "forecast": 4.0,
    }


async def test_a_deployment_is_told_with_the_time_it_was_first_seen(desk: Desk) -> None:
    told = (await desk.week(WEEK))["changes"]
    day = AT + timedelta(days=1)
    assert [line for line in told if "version" in line] == [
        f"bot: version 2 since {day:%Y-%m-%d %H:%M} UTC"
    ]


async def test_one_segment_is_told_from_all_of_them_as_if_it_were_read_alone(desk: Desk) -> None:
    later = AT + timedelta(weeks=8)
    window = Window(later - timedelta(hours=1), later + timedelta(hours=1))
    asked = {f"{segment}{n}": segment for segment in ("plans", "prices") for n in range(40)}
    await desk.reports.store.write_requests(
        [
            stored(
                name,
                started_at=later,
                decided=decision(decided_at=later),
                segment=segment,
                conversation_id=f"talk {name[-1]}",
            )
            for name, segment in asked.items()
        ]
    )
    scores = {name: n / 80 for n, name in enumerate(asked)}
    await desk.reports.store.write_judgements(
        [judged(name, later, None, 0, score=score) for name, score in scores.items()],
        dict.fromkeys(asked, later),
    )
    measured = await desk.reports.measured(window)
    people = await desk.reports.people(measured)
    for segment in ("plans", "prices", "nothing"):
        alone = await desk.reports.estimates(window, segment)
        assert told(measured, people, segment) == alone
    found = told(measured, people, "plans")
    assert found["total"]["estimate"] == pytest.approx(39 / 2 / 80)


async def test_a_label_shows_at_once_on_a_page_that_is_kept(desk: Desk) -> None:
    later = AT + timedelta(weeks=12)
    window = Window(later - timedelta(hours=1), later + timedelta(hours=1))
    decided = decision(decided_at=later)
    broken = stored("broken", started_at=later, decided=decided, status="error")
    await desk.reports.store.write_requests([broken])
    before = await desk.week(window)
    assert [one["state"] for one in before["conversations"]] == ["open"]
    await desk.accept_labels(
        [{"trace_id": "broken", "labeller": "ann", "verdict": "correct"}], later
    )
    after = await desk.week(window)
    assert [one["state"] for one in after["conversations"]] == ["labelled"]
    assert after["as_of"] == before["as_of"]
