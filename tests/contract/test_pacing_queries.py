"""What pacing, the watch and the review stream read from the real engine, worked out by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from collector.model import Decision, Judgement, StoredRequest
from collector.pacing import NO_SCORE, bin_of
from collector.ports import Store
from collector.sampling import raised
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, decision, stored

JUDGE = {"scorer": "faithfulness", "fingerprint": "current"}


@pytest.fixture
def day(request: pytest.FixtureRequest) -> datetime:
    """A month of its own for each test, so that tests do not see each other's rows."""
    beside = [item for item in request.session.items if item.path == request.node.path]
    number = beside.index(request.node)
    return AT.replace(hour=0) - timedelta(days=28 * number)


def at(when: datetime, p: float = 0.5, *, sampled: bool = True) -> Decision:
    return decision(decided_at=when, probability=p, sampled=sampled)


def request(when: datetime, decided: Decision, **fields: Any) -> StoredRequest:
    return stored(uuid4().hex, fields.pop("version", 1), started_at=when, decided=decided, **fields)


def judged(row: StoredRequest, score: float | None, **changes: Any) -> Judgement:
    plain = Judgement(
        trace_id=row.request.trace_id,
        scorer=JUDGE["scorer"],
        fingerprint=JUDGE["fingerprint"],
        status="judged",
        score=score,
        request_version=1,
        judged_at=row.decision.decided_at,
    )
    return msgspec.structs.replace(plain, **changes)


async def test_a_state_is_kept_and_an_older_one_does_not_replace_it(store: Store) -> None:
    name = uuid4().hex
    assert await store.state(name) is None
    await store.save_state(name, 2, b"\xffsecond\x00")
    await store.save_state(name, 1, b"first")
    assert await store.state(name) == b"\xffsecond\x00"
    await store.save_state(name, 3, b"third")
    await store.save_state(name, 3, b"third")
    assert await store.state(name) == b"third"


async def test_traffic_counts_what_can_be_judged_by_hour_of_decision(
    clickhouse: ClickHouseStore, day: datetime
) -> None:
    nine, ten = day + timedelta(hours=9, minutes=5), day + timedelta(hours=10)
    twice = request(nine, at(nine))
    rows = [
        twice,
        msgspec.structs.replace(twice, version=2),
        request(nine, at(nine + timedelta(minutes=1), sampled=False)),
        request(nine, at(nine), ineligible="no_answer"),
        request(ten, at(ten, sampled=False)),
    ]
    await clickhouse.write_requests(rows[:1])
    await clickhouse.write_requests(rows[1:])
    found = await clickhouse.rows(
        "traffic_by_hour", {"since": day, "until": day + timedelta(days=1)}
    )
    assert [(r["hour"], r["requests"], r["drawn"], r["first_at"]) for r in found] == [
        (9, 2, 1, nine),
        (10, 1, 0, ten),
    ]


async def test_the_spread_sums_judged_requests_by_segment_and_local_score(
    clickhouse: ClickHouseStore, day: datetime
) -> None:
    scores = [0.0, 0.2, 0.599, 0.6, 0.999, 1.0, None]
    rows = [
        request(day, at(day, 0.25), segment="lookup", lexical_score=score)
        for score in [*scores, 1.0]
    ]
    undrawn = request(day, at(day, sampled=False), segment="lookup", lexical_score=1.0)
    waiting = request(day, at(day), segment="lookup", lexical_score=1.0)
    await clickhouse.write_requests([*rows, undrawn, waiting])
    await clickhouse.write_judgements(
        [
            *(judged(row, 0.5) for row in rows),
            judged(rows[0], 0.9, fingerprint="older", judged_at=day - timedelta(days=1)),
            judged(undrawn, 0.0, purpose="review"),
        ],
        {},
    )
    asked = {"since": day, "until": day + timedelta(days=1), "scorer": "faithfulness"}
    found = await clickhouse.rows("residual_spread", asked)
    expected = {bin_of(score): 4.0 for score in scores} | {5: 8.0}
    assert {row["bin"]: row["w"] for row in found} == expected
    assert {row["bin"] for row in found} == {0, 1, 2, 3, 4, 5, NO_SCORE}
    assert all(row["wl"] == row["w"] / 2 and row["wll"] == row["w"] / 4 for row in found)


async def test_drawn_requests_come_in_order_of_decision_with_their_first_draw(
    clickhouse: ClickHouseStore, day: datetime
) -> None:
    minutes = [day + timedelta(minutes=n) for n in range(10)]
    good, waiting, failed, elsewhere = (request(when, at(when, 0.25)) for when in minutes[:4])
    first = at(minutes[4], 0.2)
    raised_later = request(minutes[4], raised(first, 0.5), version=3)
    missed = decision(decided_at=minutes[5], probability=0.05, uniform=0.1, sampled=False)
    drawn_late = request(minutes[5], raised(missed, 0.5), version=3)
    undrawn = request(minutes[6], at(minutes[6], sampled=False))
    ineligible = request(minutes[7], at(minutes[7]), ineligible="no_answer")
    before = request(minutes[8], at(day - timedelta(seconds=1)))
    archived = request(day - timedelta(days=3), at(minutes[9]))
    rows = [archived, before, ineligible, undrawn, drawn_late, raised_later, elsewhere, failed]
    rows += [waiting, good]
    await clickhouse.write_requests(rows)
    await clickhouse.write_judgements(
        [
            judged(good, 0.25),
            judged(drawn_late, 0.5),
            judged(raised_later, 1.0),
            judged(failed, None, status="failed", reason="timeout"),
            judged(undrawn, 0.1, purpose="review"),
            judged(elsewhere, 0.1, fingerprint="older"),
            judged(before, 0.1),
        ],
        {},
    )
    found = await clickhouse.rows(
        "drawn",
        {"since": day - timedelta(microseconds=1), "until": day + timedelta(hours=1), **JUDGE},
    )
    seen = [
        (row["trace_id"], row["probability"], row["state"], row["score"], row["decided_at"])
        for row in found
    ]
    assert seen == [
        (good.request.trace_id, 0.25, "judged", 0.25, minutes[0]),
        (waiting.request.trace_id, 0.25, "", 0.0, minutes[1]),
        (failed.request.trace_id, 0.25, "failed", 0.0, minutes[2]),
        (elsewhere.request.trace_id, 0.25, "another", 0.0, minutes[3]),
        (raised_later.request.trace_id, 0.2, "judged", 1.0, minutes[4]),
    ]


async def test_what_was_judged_for_the_review_is_found_by_when(
    clickhouse: ClickHouseStore, day: datetime
) -> None:
    rows = [request(day, at(day, sampled=False)) for _ in range(3)]
    await clickhouse.write_requests(rows)
    await clickhouse.write_judgements(
        [
            judged(rows[0], 0.1, purpose="review", judged_at=day + timedelta(hours=1)),
            judged(rows[1], 0.1, purpose="review", judged_at=day - timedelta(hours=1)),
            judged(rows[2], 0.1, judged_at=day + timedelta(hours=1)),
        ],
        {},
    )
    found = await clickhouse.rows("judged_for_review", {"since": day})
    ours = {row.request.trace_id for row in rows}
    assert [row["trace_id"] for row in found if row["trace_id"] in ours] == [
        rows[0].request.trace_id
    ]
