"""Two agents share a journal on Kafka and one ClickHouse server; one is killed in mid-stream."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prometheus_client import CollectorRegistry

from collector import otlp
from collector.config import StoreConfig
from collector.telemetry import Metrics
from collector.trace_files.encode import body_of_spans
from sinks.clickhouse import ClickHouseStore
from tests.bench.load import bodies
from tests.fakes.clickhouse_http import serving
from tests.kafka_broker import Broker
from tests.processes import AgentProcess

TRACES = 100
HEADERS = {"content-type": "application/x-protobuf"}


def config_of(broker: Broker, store_url: str, prefix: str) -> dict[str, Any]:
    kafka = {
        "brokers": [broker.address],
        "topic_prefix": prefix,
        "partitions": 4,
        "session_seconds": broker.session_seconds,
    }
    return {
        "assembler": {"quiet_seconds": 1.0, "rootless_seconds": 300},
        "judge": {"concurrency": 16},
        "journal": {"kafka": kafka},
        "store": {"url": f"{store_url}/default"},
    }


def single_spans() -> tuple[list[bytes], dict[str, int]]:
    """Return bodies of one span each, those of a trace close by each other; spans by trace."""
    spans = [s for body in bodies(TRACES, 1) for s in otlp.decode_traces(body, "").spans]
    sizes: dict[str, int] = {}
    for span in spans:
        sizes[span.trace_id] = sizes.get(span.trace_id, 0) + 1
    rng = random.Random(1)
    order = sorted(range(len(spans)), key=lambda place: place + rng.uniform(0, 50))
    return [body_of_spans([spans[place]]) for place in order], sizes


async def with_tables(folder: Path) -> None:
    store = await ClickHouseStore.open(
        f"chdb://{folder}", StoreConfig(), Metrics(CollectorRegistry())
    )
    await store.close()


async def stored_spans(url: str, ids: list[str]) -> dict[str, int]:
    store = await ClickHouseStore.open(
        f"{url}/default", StoreConfig(), Metrics(CollectorRegistry())
    )
    try:
        rows = await store.requests(ids)
        return {trace_id: len(row.span_ids) for trace_id, row in rows.items()}
    finally:
        await store.close()


@pytest.mark.timeout(400)
def test_spans_of_a_trace_sent_to_either_agent_are_one_request_also_when_one_is_killed(
    tmp_path: Path, broker: Broker
) -> None:
    messages, sizes = single_spans()
    asyncio.run(with_tables(tmp_path / "clickhouse"))
    with serving(tmp_path / "clickhouse") as server:
        config = config_of(broker, server.url, f"{uuid4()}.")
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        with (
            AgentProcess(tmp_path / "one", config) as one,
            AgentProcess(tmp_path / "two", config) as two,
            httpx.Client(timeout=30, trust_env=False) as client,
        ):
            for number, message in enumerate(messages):
                if number == len(messages) * 2 // 3:
                    two.kill()
                agent = two if number % 2 and number < len(messages) * 2 // 3 else one
                answer = client.post(
                    f"{agent.urls['otlp_http']}/v1/traces", content=message, headers=HEADERS
                )
                assert answer.status_code == httpx.codes.OK
            totals = settled(one, len(sizes))
        assert asyncio.run(stored_spans(server.url, sorted(sizes))) == sizes
    assert totals["requests"] == len(sizes)
    assert totals["accounting_ok"]
    assert totals["judged"] + sum(totals["failed"].values()) == totals["eligible"]


def settled(agent: AgentProcess, requests: int) -> dict[str, Any]:
    """Wait until so many requests are stored and judged, and nothing moves any more."""
    deadline = time.monotonic() + 150
    before: dict[str, Any] = {}
    quiet_since = time.monotonic()
    while time.monotonic() < deadline:
        totals = agent.totals()
        if totals != before or totals["requests"] < requests or totals["waiting"]:
            quiet_since = time.monotonic()
        if time.monotonic() - quiet_since > 4:
            return totals
        before = totals
        time.sleep(0.5)
    raise AssertionError(f"the agent did not settle: {before}")
