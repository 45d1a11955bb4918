"""A budget through the whole pipeline: the first decision of a request stays, over restarts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import Span, StoredRequest
from collector.telemetry import Metrics
from dashboards.reports import Reports
from sinks.clickhouse import ClickHouseStore
from tests.fakes.pipeline import Pipeline
from tests.fakes.requests import chain, llm, retriever
from tests.fakes.spans import span
from tests.integration.test_signals_late import NOW, WINDOW

BUDGET = 40
SAMPLING = {"budget_per_day": BUDGET, "rate": 0.2, "floor": 0.01, "signal_rate": 0.0}


def request(number: int) -> list[Span]:
    start = {"start_ns": int(NOW.timestamp() * 1e9), "end_ns": int(NOW.timestamp() * 1e9) + 10**9}
    spans = [
        span(0, chain(f"What is {number}?", "It is a number."), **start),
        span(1, retriever("p1"), parent=0, **start),
        span(2, llm(), parent=0, **start),
    ]
    return [msgspec.structs.replace(one, trace_id=f"{number:032x}") for one in spans]


async def stored(store: ClickHouseStore, numbers: range) -> dict[str, StoredRequest]:
    return await store.requests([f"{number:032x}" for number in numbers])


async def test_decisions_are_paced_stored_and_kept(tmp_path: Path) -> None:
    metrics = Metrics(CollectorRegistry())
    store = await ClickHouseStore.open(f"chdb://{tmp_path / 'store'}", StoreConfig(), metrics)
    pipeline = Pipeline(store, {"sampling": SAMPLING})
    try:
        async with pipeline.running():
            await pipeline.send(*(request(number) for number in range(1, 201)))
            await pipeline.until_idle()
        first = await stored(store, range(1, 201))
        assert len(first) == 200
        async with pipeline.running():
            # As after a crash that lost the journal's positions, with new traffic behind it.
            await pipeline.send(*(request(number) for number in range(1, 201)))
            await pipeline.send(*(request(number) for number in range(201, 401)))
            await pipeline.until_idle()
        again = await stored(store, range(1, 401))
        drawn = [row for row in again.values() if row.decision.sampled]
        assert pipeline.count("judge_budget_requests_spent") == len(drawn)
        assert pipeline.count("judge_budget_requests") == BUDGET
        total = (await Reports(store, pipeline.judge.fingerprint).estimates(WINDOW))["total"]
    finally:
        await store.close()

    assert {id_: row.decision for id_, row in again.items() if id_ in first} == {
        id_: row.decision for id_, row in first.items()
    }
    rates = [row.decision.probability for row in again.values()]
    assert len(set(rates)) > 10
    assert all(0.01 <= rate <= 1.0 for rate in rates)
    # The rate said 200 requests a day; as they come all at once, the pace falls.
    assert rates[-1] < rates[0] / 2
    assert all(
        row.decision.sampled == (row.decision.uniform < row.decision.probability)
        for row in again.values()
    )
    assert total["accounting_ok"]
    assert total["judged"] == len(drawn) == len(pipeline.judge.asked)
    weight = sum(1 / row.decision.probability for row in drawn)
    assert weight == pytest.approx(400, rel=0.5)
