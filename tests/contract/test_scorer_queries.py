"""Estimates of the scorers beside faithfulness on the real engine, worked out by hand."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from collector.errors import UsageError
from collector.model import Judgement, StoredRequest
from dashboards.reports import Reports
from dashboards.windows import Window
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, decision, stored

SCORERS = {"refusal": "refusal-1", "second_judge": "second-1"}
DAY = Window(AT - timedelta(hours=12), AT + timedelta(hours=12))


@pytest.fixture(scope="module")
def reports(clickhouse: ClickHouseStore) -> Reports:
    asyncio.run(fill(clickhouse))
    return Reports(clickhouse, "first-1", SCORERS)


def request(name: str, drawn: list[str], probability: float, **changes: Any) -> StoredRequest:
    decided = decision(
        sampled=True,
        probability=0.8,
        prediction=0.9,
        calibration="c1",
        scorer_probability={"refusal": probability} if probability else {},
        scorers_drawn=drawn,
    )
    return stored(name, decided=decided, segment="lookup", **changes)


def judgement(name: str, score: float | None, scorer: str, fingerprint: str) -> Judgement:
    return Judgement(
        trace_id=name,
        scorer=scorer,
        fingerprint=fingerprint,
        status="failed" if score is None else "judged",
        reason="timeout" if score is None else None,
        score=score,
        request_version=1,
        judged_at=AT,
    )


async def fill(store: ClickHouseStore) -> None:
    """Two refusals of weight 2 and 5, one answer of weight 2, and every other state."""
    await store.write_requests(
        [
            request("a", ["refusal"], 0.5),
            request("b", ["refusal"], 0.2, ineligible="no_context"),
            request("c", ["refusal"], 0.5),
            request("failed", ["refusal"], 0.5),
            request("waiting", ["refusal"], 0.5),
            request("not drawn", [], 0.5),
            request("nothing to score", [], 0.0),
            request("no answer", [], 0.0, ineligible="no_answer"),
        ]
    )
    rows = [
        *(judgement(name, score, "refusal", "refusal-1") for name, score in SCORES.items()),
        judgement("a", 0.25, "faithfulness", "first-1"),
        judgement("c", 1.0, "faithfulness", "first-1"),
        judgement("a", 0.5, "second_judge", "second-1"),
        judgement("c", 1.0, "second_judge", "second-1"),
        judgement("waiting", 1.0, "refusal", "another judge"),
    ]
    await store.write_judgements(rows, {row.trace_id: AT for row in rows})


SCORES = {"a": 1.0, "b": 1.0, "c": 0.0, "failed": None}


async def test_every_request_is_in_one_place_for_a_scorer_too(reports: Reports) -> None:
    total = (await reports.estimates(DAY, scorer="refusal"))["total"]
    assert total["requests"] == 8
    assert total["ineligible"] == {"no_answer": 1, "nothing_to_score": 1}
    states = {key: total[key] for key in ("eligible", "judged", "waiting", "not_sampled")}
    assert states == {"eligible": 6, "judged": 3, "waiting": 1, "not_sampled": 1}
    assert total["failed"] == {"timeout": 1}
    assert total["accounting_ok"]


async def test_scores_weigh_by_the_probability_of_their_own_draw(reports: Reports) -> None:
    report = await reports.estimates(DAY, scorer="refusal")
    (row,) = await reports.store.rows(
        "estimate_sums",
        {
            **{"since": DAY.since, "until": DAY.until, "segment": ""},
            **{"scorer": "refusal", "fingerprint": "refusal-1"},
        },
    )
    # 1 - wl/w = (2 * 1 + 5 * 1 + 2 * 0) / (2 + 5 + 2)
    assert (row["n"], row["w"], row["wl"], row["w_failed"]) == (3, 9.0, 2.0, 2.0)
    assert 1 - row["wl"] / row["w"] == pytest.approx(7 / 9)
    # Nothing foreseen of faithfulness may enter.
    assert (row["n_predicted"], row["h"], row["wh"]) == (0, 0.0, 0.0)
    assert report["covariate"]["reason"] == "only faithfulness is predicted"
    assert report["judge"]["fingerprint"] == "refusal-1"
    assert report["judge"]["trust"] == "uncalibrated"


async def test_faithfulness_knows_nothing_of_other_scores(reports: Reports) -> None:
    total = (await reports.estimates(DAY))["total"]
    assert (total["judged"], total["eligible"], total["waiting"]) == (2, 6, 4)
    (row,) = await reports.store.rows(
        "estimate_sums",
        {
            **{"since": DAY.since, "until": DAY.until, "segment": ""},
            **{"scorer": "faithfulness", "fingerprint": "first-1"},
        },
    )
    # Two answers of weight 1 / 0.8, with losses 0.75 and 0.
    assert (row["w"], row["wl"]) == (pytest.approx(2.5), pytest.approx(0.9375))


async def test_a_scorer_that_is_not_configured_is_named(reports: Reports) -> None:
    with pytest.raises(UsageError, match="scorer: relevance is not configured; there are"):
        await reports.estimates(DAY, scorer="relevance")


async def test_two_judges_are_compared_answer_by_answer(reports: Reports) -> None:
    second = (await reports.calibration())["second"]
    assert (second["fingerprint"], second["answers"]) == ("second-1", 2)
    assert second["agreement"]["agreement"] == 1.0  # "a" is flagged by both, "c" by none
    assert second["difference"] == pytest.approx(0.125)  # 0.5 - 0.25, and 0


async def test_without_a_second_judge_there_is_nothing_to_compare(reports: Reports) -> None:
    assert (await Reports(reports.store, "first-1").calibration())["second"] is None
