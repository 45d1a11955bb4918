"""A calibration learned from the past narrows the estimates of what comes after it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import Decision, Judgement
from collector.sampling import uniform
from collector.telemetry import Metrics
from dashboards.reports import Reports
from dashboards.windows import Window
from scorers.covariate import Covariate
from scorers.stats import ppi, weighted
from scorers.stats.ppi import PpiSums
from sinks.clickhouse import ClickHouseStore
from tests.fakes.clocks import StoppedClock
from tests.fakes.store import stored

NOW = datetime.now(UTC)
RATE = 0.25


class Row(NamedTuple):
    """One request: what the judge says of it if asked, and the decision about it."""

    score: float
    decision: Decision


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ClickHouseStore]:
    url = f"chdb://{tmp_path / 'store'}"
    opened = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    yield opened
    await opened.close()


async def serve(
    store: ClickHouseStore,
    covariate: Covariate,
    requests: int,
    at: datetime,
    *,
    seed: int,
    fingerprint: str = "j",
) -> list[Row]:
    """Store requests whose local score tells much of what the judge says of those drawn."""
    rng = random.Random(seed)
    rows, judgements, found = [], [], []
    for number in range(requests):
        trace_id = f"{seed:016x}{number:016x}"
        score = rng.choice([0.0, 0.25, 0.5, 1.0, 1.0, 1.0, 1.0])
        local = min(max(0.3 + 0.6 * score + rng.gauss(0, 0.1), 0.0), 1.0)
        u = uniform("s", trace_id)
        plain = Decision(
            sampled=u < RATE,
            probability=RATE,
            uniform=u,
            stratum="all",
            salt="s",
            decided_at=at,
        )
        decision = covariate.foreseen(plain, local)
        found.append(Row(score, decision))
        rows.append(stored(trace_id, started_at=at, decided=decision, lexical_score=local))
        if decision.sampled:
            verdict = Judgement(
                trace_id=trace_id,
                scorer="faithfulness",
                fingerprint=fingerprint,
                status="judged",
                score=score,
                judged_at=at,
            )
            judgements.append(verdict)
    await store.write_requests(rows)
    await store.write_judgements(judgements, {})
    return found


async def test_predictions_are_used_for_what_came_after_they_were_learned(
    store: ClickHouseStore,
) -> None:
    clock, reports = StoppedClock(NOW - timedelta(days=2)), Reports(store, "j")
    covariate = Covariate(store, "faithfulness", "j", clock)
    await serve(store, covariate, 400, NOW - timedelta(days=3), seed=1)
    await covariate.refit_if_due()
    report = await reports.estimates(Window(NOW - timedelta(days=4), NOW - timedelta(days=2)))
    judged = report["total"]["judged"]
    assert report["covariate"]["state"] == "off"
    reason = f"{judged} judged requests so far; it takes 200 to learn from"
    assert report["covariate"]["reason"] == reason
    assert report["total"]["method"] == "hajek"

    await serve(store, covariate, 1200, NOW - timedelta(days=3), seed=2)
    await covariate.refit_if_due()
    fresh = await serve(store, covariate, 800, NOW - timedelta(hours=2), seed=3)
    report = await reports.estimates(Window(NOW - timedelta(hours=3), NOW))
    total, used = report["total"], report["covariate"]
    assert (used["state"], used["reason"], total["method"]) == ("on", None, "ppi")
    assert used["version"] == fresh[0].decision.calibration
    assert used["fitted_at"] == clock.at.isoformat()
    truth = sum(row.score for row in fresh) / len(fresh)
    assert total["low"] <= truth <= total["high"]
    # What the database adds up is what the rows say, and narrower than without predictions.
    expected = of_rows(fresh)
    shown = [total[key] for key in ("estimate", "low", "high")]
    assert shown == pytest.approx([expected.mean, expected.low, expected.high])
    plain = weighted.estimate(drawn_sums(fresh).judged)
    assert plain.low is not None
    assert plain.high is not None
    assert total["high"] - total["low"] < 0.8 * (plain.high - plain.low)

    # A window that reaches back to before is told apart, and estimated without.
    whole = await reports.estimates(Window(NOW - timedelta(days=4), NOW))
    assert (whole["covariate"]["state"], whole["total"]["method"]) == ("off", "hajek")
    assert "came after the first calibration" in whole["covariate"]["reason"]


async def test_a_calibration_outlives_the_process_and_is_refitted_as_more_is_judged(
    store: ClickHouseStore,
) -> None:
    clock = StoppedClock(NOW - timedelta(days=2))
    covariate = Covariate(store, "faithfulness", "j", clock)
    await serve(store, covariate, 1200, NOW - timedelta(days=3), seed=1)
    await covariate.refit_if_due()
    first = version_of(covariate)
    clock.at += timedelta(hours=1)
    again = Covariate(store, "faithfulness", "j", clock)
    await again.refit_if_due()
    assert version_of(again) == first
    await serve(store, again, 1600, NOW - timedelta(days=2, hours=1), seed=2)
    await again.refit_if_due()
    doubled = version_of(again)
    assert doubled > first
    clock.at += timedelta(days=1)
    await again.refit_if_due()
    assert version_of(again) > doubled


async def test_judgements_of_another_judge_teach_nothing(store: ClickHouseStore) -> None:
    clock = StoppedClock(NOW - timedelta(days=2))
    covariate = Covariate(store, "faithfulness", "new", clock)
    await serve(store, covariate, 1200, NOW - timedelta(days=3), seed=1, fingerprint="old")
    await covariate.refit_if_due()
    (row,) = await serve(store, covariate, 1, NOW, seed=2)
    assert row.decision.prediction is None


def version_of(covariate: Covariate) -> str:
    plain = Decision(
        sampled=True, probability=1.0, uniform=0.0, stratum="all", salt="s", decided_at=NOW
    )
    version = covariate.foreseen(plain, 0.5).calibration
    assert version is not None
    return version


def drawn_sums(rows: Sequence[Row]) -> PpiSums:
    drawn = [row for row in rows if row.decision.sampled]
    predictions: list[Any] = [row.decision.prediction for row in drawn]
    return PpiSums.of(
        [row.score for row in drawn],
        predictions,
        [row.decision.probability for row in drawn],
        requests=len(rows),
        h=sum(1 - (row.decision.prediction or 0.0) for row in rows),
    )


def of_rows(rows: Sequence[Row]) -> weighted.Estimate:
    return ppi.estimate(drawn_sums(rows))
