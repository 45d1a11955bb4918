"""What dashboards ask of the store about golden runs and the gate, worked out by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from clickhouse_connect.driver.client import Client
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.gates import GateResult, write_gate
from collector.model_evaluation import EvalRecord
from collector.telemetry import Metrics
from dashboards.grafana.quality import sql as written
from dashboards.reports import Reports
from dashboards.review.app import build_review
from sinks.clickhouse import ClickHouseStore
from sinks.connection import READER_SETTINGS, connect
from tests.fakes.evaluated import an_eval_row, an_eval_run
from tests.fakes.store import AT
from tests.grafana_queries import Choice, sql

HOUR = timedelta(hours=1)
Opened = tuple[ClickHouseStore, Client]


@pytest.fixture
def opened(tmp_path: Any) -> Iterator[Opened]:
    url = f"chdb://{tmp_path}"
    opening = ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    store = asyncio.run(opening)
    client = connect(url, READER_SETTINGS)
    yield store, client
    client.close()
    asyncio.run(store.close())


def asked(client: Client, query: str, until: datetime) -> list[dict[str, Any]]:
    """Return what a panel shows whose time range is the day before `until`."""
    text = sql(written(query), Choice(judge="j"), until - 24 * HOUR, until)
    return list(client.query(text).named_results())


def said(old: str, new: str, at: datetime, *blocked: str, **more: Any) -> dict[str, Any]:
    return {"old": old, "new": new, "decided_at": at.isoformat(), "blocked": blocked, **more}


async def test_the_last_word_of_the_gate_on_two_runs_is_shown_and_marked(opened: Opened) -> None:
    store, client = opened
    app = build_review(Reports(store, "j"), list, ["*"])
    results = [
        said("a", "b", AT, "recall@5 is 0.500"),
        said("a", "b", AT + HOUR, warnings=["mrr: 5 questions are too few"]),
        said("b", "c", AT + 2 * HOUR, "correctness went from 1.000", "mrr is 0.2"),
        said("b", "old", AT - 48 * HOUR, "of another day"),
    ]
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1"
    ) as api:
        # Once more, as after a lost answer, and out of order: the latest decision counts.
        for part in (results, results[2:3], results[0:1]):
            answer = await api.post("/api/gates", json=part)
            assert (answer.status_code, answer.json()) == (200, {"stored": len(part)})
        for wrong, field in (({"old": "a"}, "new"), ({**results[0], "blocked": "x"}, "blocked")):
            answer = await api.post("/api/gates", json=[wrong])
            assert answer.status_code == 400
            assert field in answer.json()["error"]
    shown = asked(client, "gate_results", AT + 3 * HOUR)
    assert [(r["new_run"], r["old_run"], r["result"], r["why"]) for r in shown] == [
        ("c", "b", "blocked", "correctness went from 1.000; mrr is 0.2"),
        ("b", "a", "passed", "mrr: 5 questions are too few"),
    ]
    assert [row["time"] for row in shown] == [AT + 2 * HOUR, AT + HOUR]
    marks = asked(client, "gate_marks", AT + 3 * HOUR)
    assert [(m["time"], m["title"], m["text"]) for m in marks] == [
        (AT + HOUR, "b passed", "against a"),
        (AT + 2 * HOUR, "c blocked", "against b: correctness went from 1.000; mrr is 0.2"),
    ]


async def test_a_decision_is_kept_to_the_microsecond_and_in_any_language(opened: Opened) -> None:
    store, client = opened
    at = AT + timedelta(microseconds=123457)
    await write_gate(store, GateResult(old='"é', new="b", decided_at=at, blocked=["0.5 < 0.9 ✗"]))
    (row,) = asked(client, "gate_results", AT + HOUR)
    assert (row["time"], row["old_run"], row["why"]) == (at, '"é', "0.5 < 0.9 ✗")


async def test_the_newest_run_is_compared_with_the_one_before(opened: Opened) -> None:
    """Of three questions one got worse: that may be chance. What is slower is worse."""
    store, client = opened
    scores = {
        "before": {"correctness": (1, 1, 0), "latency_ms": (100, 200, 300)},
        "after": {"correctness": (0, 1, 0), "latency_ms": (210, 310, 410)},
    }
    for age, (name, measures) in enumerate(reversed(scores.items())):
        rows = [
            an_eval_row(n, measures={one: float(v[n]) for one, v in measures.items()})
            for n in range(3)
        ]
        run = an_eval_run(name, started_at=AT - age * HOUR)
        await store.write_evaluation(EvalRecord(run=run, rows=rows, summary={"questions": 3}), AT)
    slower, less_right = asked(client, "differences", AT + HOUR)
    assert slower == {
        "measure": "latency_ms",
        "questions": 3,
        "mean_before": 200,
        "mean_after": 310,
        "mean_change": 110,
        "half_width": 0,
        "verdict": "worse",
    }
    # Changes of -1, 0 and 0: their deviation is 0.57735, 1.96 * 0.57735 / sqrt(3) is 0.65333.
    assert less_right == {
        "measure": "correctness",
        "questions": 3,
        "mean_before": pytest.approx(2 / 3),
        "mean_after": pytest.approx(1 / 3),
        "mean_change": pytest.approx(-1 / 3),
        "half_width": pytest.approx(0.65333, abs=1e-5),
        "verdict": "not shown",
    }
    assert [
        (r["question_id"], r["before"], r["after"]) for r in asked(client, "worse", AT + HOUR)
    ] == [("q0", 1, 0)]
