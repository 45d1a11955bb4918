"""The review of conversations without end, and questions to its API that make no sense."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import Document, Signal
from collector.telemetry import Metrics
from dashboards.reports import Reports
from dashboards.review.app import build_review
from dashboards.review.render import render
from dashboards.windows import Window
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, MemoryStore, stored

DAY = {"since": AT.isoformat(), "until": (AT + timedelta(days=1)).isoformat()}
LONG = "a long comment " * 600


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ClickHouseStore]:
    metrics = Metrics(CollectorRegistry())
    store = await ClickHouseStore.open(f"chdb://{tmp_path}", StoreConfig(), metrics)
    yield store
    await store.close()


async def fill(store: ClickHouseStore, turns: int, comments: int) -> str:
    """Store one conversation; return the trace id of its worst turn, in the middle."""
    ids = [f"{number:032x}" for number in range(1, turns + 1)]
    page = Document(rank=1, text="Pro costs 10 €. " * 10_000)
    rows = [
        stored(
            trace_id,
            started_at=AT + timedelta(seconds=number),
            conversation_id="endless",
            question=f"question {number}",
            answer="yes",
            documents=[page] if number == turns // 2 else [],
        )
        for number, trace_id in enumerate(ids)
    ]
    for start in range(0, turns, 1000):
        await store.write_requests(rows[start : start + 1000])
    worst = ids[-turns // 2]
    words = [
        signal(f"c{number}", "comment", conversation_id="endless", comment=LONG)
        for number in range(comments)
    ]
    thumb = signal("down", "thumbs_down", trace_id=worst, sentiment=-1, comment="wrong price")
    await store.write_signals([*words, thumb])
    return worst


def signal(signal_id: str, kind: Any, **fields: Any) -> Signal:
    at = AT + timedelta(minutes=30)
    return Signal(signal_id=signal_id, kind=kind, occurred_at=at, received_at=at, **fields)


async def test_a_conversation_without_end_is_shown_in_part_and_says_so(
    store: ClickHouseStore,
) -> None:
    worst = await fill(store, turns=3000, comments=3000)
    review = await Reports(store, "judge").review(
        Window(AT - timedelta(hours=1), AT + timedelta(days=1))
    )
    (found,) = review["conversations"]
    shown = [turn["question"] for turn in found["turns"]]
    markdown = render(review, "md")

    assert len(shown) == 50
    assert {"question 1476", "question 1500", "question 1524"} <= set(shown)
    assert shown == sorted(shown)
    assert found["turns_left_out"] == 2950
    assert found["worst_trace_id"] == worst
    assert found["diagnosis"] is not None
    assert len(found["signals"]) == 26
    assert found["signals_left_out"] == 2975
    # The complaint is shown, though all of the comments came at the same time.
    assert "wrong price" in {signal["comment"] for signal in found["signals"]}
    assert found["reasons"][0] == "thumbs down"
    assert "2975 more signals" in markdown
    assert "50 turns shown, 2950 more" in markdown
    assert len(markdown) < 500_000


async def test_the_page_and_the_api_say_how_much_is_left_out(store: ClickHouseStore) -> None:
    await fill(store, turns=60, comments=60)
    app = build_review(Reports(store, "judge"), list, ["*"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://agent", timeout=60
    ) as client:
        page = await client.get("/conversation/endless", params=DAY)
        report = await client.get("/api/review", params=DAY)

    assert "35 more signals" in page.text
    assert "50 turns shown, 10 more" in page.text
    (found,) = report.json()["conversations"]
    assert (found["turns_left_out"], found["signals_left_out"]) == (10, 35)
    assert len(page.content) < 500_000
    assert len(report.content) < 500_000


@pytest.mark.parametrize("path", ["/", "/api/review", "/api/estimates", "/api/doctor"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "9" * 5000),
        ("limit", "0"),
        ("limit", "²"),
        ("until", "9999-12-31T23:59:59-12:00"),
        ("since", "0001-01-01T00:00:00+12:00"),
        ("since", "99999d"),
        ("week", "9999-W52"),
        ("week", "9999-W53"),
        ("week", "0001-W01"),
        ("since", "x" * 5000),
    ],
)
async def test_what_makes_no_sense_is_answered_400_in_few_words(
    path: str, name: str, value: str
) -> None:
    app = build_review(Reports(MemoryStore(), "judge"), list, ["*"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://agent"
    ) as client:
        answer = await client.get(path, params={name: value})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"{name}: ")
    assert len(answer.content) < 300


@pytest.mark.parametrize(
    ("week", "before", "after"),
    [
        ("2020-W53", "2020-W52", "2021-W01"),
        ("2021-W01", "2020-W53", "2021-W02"),
        ("9999-W51", "9999-W50", None),
    ],
)
async def test_the_weeks_beside_a_week_are_named_at_the_ends_of_years(
    store: ClickHouseStore, week: str, before: str, after: str | None
) -> None:
    app = build_review(Reports(store, "judge"), list, ["*"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://agent"
    ) as client:
        page = await client.get("/", params={"week": week})
    assert page.status_code == 200
    assert re.findall(r'<a href="\?week=([^"]+)">', page.text) == [before, after][: 1 + bool(after)]


async def test_an_unknown_parameter_is_named_in_few_words() -> None:
    app = build_review(Reports(MemoryStore(), "judge"), list, ["*"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://agent"
    ) as client:
        answer = await client.get("/api/review", params={"serv\x1b[31m" + "c" * 5000: "x"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("serv[31mccc")
    assert len(answer.content) < 300
