"""What an estimate says of itself: display, wider windows, failures, conversations, judges."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import Judgement
from collector.telemetry import Metrics
from dashboards.estimates import WindowSums, total_row
from dashboards.reports import Reports
from dashboards.windows import Window, last
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import decision, stored

NOW = datetime.now(UTC)
HOUR = last("1h", NOW)
README = Path(__file__).parents[2] / "README.md"
_ids = count(1)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ClickHouseStore]:
    url = f"chdb://{tmp_path / 'store'}"
    opened = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    yield opened
    await opened.close()


async def serve(
    store: ClickHouseStore,
    scores: Sequence[float | None],
    ago: timedelta,
    fingerprint: str = "j",
    **request: Any,
) -> None:
    """Store judged requests, all drawn at one half; those without a score have failed."""
    ids = [f"{next(_ids):032x}" for _ in scores]
    at = NOW - ago
    drawn = decision(probability=0.5, decided_at=at)
    rows = [stored(i, started_at=at, decided=drawn, **request) for i in ids]
    await store.write_requests(rows)
    verdicts = [
        Judgement(
            trace_id=trace_id,
            scorer="faithfulness",
            fingerprint=fingerprint,
            status="failed" if score is None else "judged",
            score=score,
            reason="timeout" if score is None else None,
            judged_at=at,
        )
        for trace_id, score in zip(ids, scores, strict=True)
    ]
    await store.write_judgements(verdicts, {})


async def test_too_little_in_the_window_is_shown_in_the_shortest_that_has_enough(
    store: ClickHouseStore,
) -> None:
    await serve(store, [1.0] * 5, timedelta(minutes=10), segment="s")
    await serve(store, [1.0, 0.5] * 5, timedelta(hours=3), segment="s")
    await serve(store, [1.0, 0.5] * 10, timedelta(hours=20), segment="s")
    await serve(store, [1.0, 0.5] * 20, timedelta(minutes=10), segment="enough")
    report = await Reports(store, "j").estimates(HOUR)
    rows = {row["segment"]: row for row in report["segments"]}
    few = rows["s"]
    assert (few["display"], few["estimate"], few["n_eff"]) == ("hidden", None, 5.0)
    assert few["low"] is not None
    # 5 + 10 requests in six hours are not enough, 35 in a day are.
    wider = few["wider"]
    assert (wider["window"], wider["display"], wider["n_eff"]) == ("24h", "normal", 35.0)
    assert wider["estimate"] == pytest.approx((5 + 15 * 1.5) / 35)
    assert wider["since"] == (NOW - timedelta(hours=24)).isoformat()
    assert (rows["enough"]["display"], rows["enough"]["wider"]) == ("normal", None)
    assert report["total"]["wider"] is None


async def test_no_window_is_offered_where_none_has_enough(store: ClickHouseStore) -> None:
    await serve(store, [1.0] * 9, timedelta(minutes=10))
    total = (await Reports(store, "j").estimates(HOUR))["total"]
    assert (total["display"], total["estimate"], total["wider"]) == ("low_n", 1.0, None)


async def test_failures_above_two_percent_bound_the_mean(store: ClickHouseStore) -> None:
    await serve(store, [1.0] * 36 + [None] * 4, timedelta(minutes=10))
    total = (await Reports(store, "j").estimates(HOUR))["total"]
    # A tenth failed: between .9 and 1, and not yet more than a tenth.
    assert total["bounds"] == pytest.approx([0.9, 1.0])
    assert total["worst"] == pytest.approx([0.9 * total["low"], 0.9 * total["high"] + 0.1])
    assert not total["degraded"]
    await serve(store, [None], timedelta(minutes=10))
    assert (await Reports(store, "j").estimates(HOUR))["total"]["degraded"]


async def test_answers_of_one_conversation_count_for_less(store: ClickHouseStore) -> None:
    ten = timedelta(minutes=10)
    for talk in range(20):
        score = 0.0 if talk % 4 == 0 else 1.0
        await serve(store, [score] * 4, ten, segment="same", conversation_id=f"t{talk}")
    await serve(store, ([0.0] + [1.0] * 3) * 20, ten, segment="apart")
    report = await Reports(store, "j").estimates(HOUR)
    rows = {row["segment"]: row for row in report["segments"]}
    same, apart = rows["same"], rows["apart"]
    assert same["estimate"] == apart["estimate"] == 0.75
    assert (same["conversations"], apart["conversations"]) == (20, 80)
    # Four answers that always agree tell as much as one: a factor of 4 * 20/19, and Student's
    # quantile of 19 degrees of freedom, 2.0930, for the normal 1.9600.
    assert same["design_effect"] == pytest.approx(4 * 20 / 19 * (2.0930 / 1.9600) ** 2, abs=1e-3)
    assert apart["design_effect"] == 1.0
    assert same["high"] - same["low"] > 1.8 * (apart["high"] - apart["low"])
    assert (same["display"], apart["display"]) == ("low_n", "normal")


async def test_two_judges_are_never_mixed_and_the_change_is_named(store: ClickHouseStore) -> None:
    await serve(store, [0.0] * 40, timedelta(minutes=30), "old")
    await serve(store, [1.0] * 40, timedelta(minutes=10), "new")
    new, old = [await Reports(store, name).estimates(HOUR) for name in ("new", "old")]
    assert (new["total"]["estimate"], new["total"]["judged"]) == (1.0, 40)
    assert (old["total"]["estimate"], old["total"]["judged"]) == (0.0, 40)
    (change,) = new["judge_changes"]
    assert (change["previous"], change["fingerprint"]) == ("old", "new")
    assert change["at"] == (NOW - timedelta(minutes=10)).isoformat()


async def test_without_human_labels_the_correction_is_refused_with_its_reason(
    store: ClickHouseStore,
) -> None:
    reports = Reports(store, "j")
    report = await reports.estimates(Window(NOW, NOW + timedelta(hours=1)))
    assert report["total"]["display"] == "no_data"
    correction = report["judge"]["correction"]
    assert (correction["state"], correction["estimate"]) == ("refused", None)
    assert correction["reason"] == "too little was judged in this window"
    await serve(store, [1.0, 0.5] * 20, timedelta(minutes=10))
    correction = (await reports.estimates(HOUR))["judge"]["correction"]
    assert (correction["state"], correction["estimate"]) == ("refused", None)
    assert correction["reason"] == "no human labels to compare the judge with"


def test_the_readme_names_every_field_of_an_estimate() -> None:
    text = README.read_text()
    table = text.partition("<!-- estimates:begin -->")[2].partition("<!-- estimates:end -->")[0]
    named = {
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row[: row.find("|", 1)])
    }
    assert named == total_row(WindowSums([], []), {"trust": "uncalibrated"}).keys()
