"""Golden runs in the real store: in parts, again, and superseded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from clickhouse_connect.driver.client import Client
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model_evaluation import EvalRecord
from collector.telemetry import Metrics
from dashboards.reports import Reports
from dashboards.review.app import build_review
from sinks.clickhouse import ClickHouseStore
from sinks.connection import READER_SETTINGS, connect
from tests.fakes.evaluated import an_eval_row, an_eval_run
from tests.fakes.store import AT, MemoryStore

RIGHT = an_eval_row(1, measures={"correctness": 1.0, "mrr": None}, undefined={"mrr": "no_gold"})
FAILED = an_eval_row(1, measures={"correctness": None}, failures={"correctness": "HTTP 500"})
OTHER = an_eval_row(2, segment="multi_hop", measures={"latency_ms": 120.0, "cost_usd": 0.01})


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClickHouseStore, Client]]:
    url = f"chdb://{tmp_path_factory.mktemp('store')}"
    metrics = Metrics(CollectorRegistry())
    store = asyncio.run(ClickHouseStore.open(url, StoreConfig(), metrics))
    client = connect(url, READER_SETTINGS)
    yield store, client
    client.close()
    asyncio.run(store.close())


def rows(client: Client, table: str, run: str) -> list[dict[str, Any]]:
    query = f"SELECT * FROM {table} FINAL WHERE run_id = {{run:String}}"
    return list(client.query(query, parameters={"run": run}).named_results())


async def test_a_run_in_parts_is_known_once_its_summary_came(
    opened: tuple[ClickHouseStore, Client],
) -> None:
    store, client = opened
    run = an_eval_run("parts")
    await store.write_evaluation(EvalRecord(run=run, rows=[RIGHT]), AT)
    assert rows(client, "eval_runs", "parts") == []
    await store.write_evaluation(EvalRecord(run=run, rows=[OTHER], summary={"questions": 2}), AT)
    (known,) = rows(client, "eval_runs", "parts")
    assert known["summary"] == '{"questions":2}'
    found = {row["question_id"]: row for row in rows(client, "eval_rows", "parts")}
    assert found["q1"]["measures"] == {"correctness": 1.0}
    assert (found["q2"]["latency_ms"], found["q2"]["cost_usd"]) == (120.0, 0.01)


async def test_a_run_that_is_written_again_replaces_itself(
    opened: tuple[ClickHouseStore, Client],
) -> None:
    store, client = opened
    run = an_eval_run("again")
    await store.write_evaluation(EvalRecord(run=run, rows=[FAILED], summary={"n": 1}), AT)
    later = AT + timedelta(minutes=5)
    await store.write_evaluation(EvalRecord(run=run, rows=[RIGHT], summary={"n": 2}), later)
    (row,) = rows(client, "eval_rows", "again")
    assert (row["measures"], row["failures"]) == ({"correctness": 1.0}, {})
    (known,) = rows(client, "eval_runs", "again")
    assert known["summary"] == '{"n":2}'


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        ("[]", "text/plain", 415),  # what a form on another web page can send
        ("{}", "application/json", 400),
        ('{"run": {"run_id": 1}, "rows": []}', "application/json", 400),
        ("not json", "application/json", 400),
    ],
)
async def test_the_agent_takes_runs_only_and_from_no_web_page(
    body: str, content_type: str, status: int
) -> None:
    store = MemoryStore()
    app = build_review(Reports(store, "judge"), list, ["*"])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
        answer = await client.post(
            "/api/evaluations", content=body, headers={"content-type": content_type}
        )
    assert answer.status_code == status
    assert store.evaluations == []
