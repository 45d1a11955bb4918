"""Each role a process of its own, on Kafka and a ClickHouse server; the reporter is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from collector.config import StoreConfig
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore
from tests.bench.load import bodies
from tests.fakes.clickhouse_http import serving
from tests.kafka_broker import Broker
from tests.processes import AgentProcess

TRACES = 60
HEADERS = {"content-type": "application/x-protobuf"}
ROLES = {
    "receiver": "receiver",
    "processor": "processor",
    "judge": "judge",
    "reporter-1": "reporter",
    "reporter-2": "reporter",
    "review": "review",
}
LISTENS = {"receiver": {"otlp_http", "otlp_grpc", "metrics"}, "review": {"review", "metrics"}}


def config_of(broker: Broker, store_url: str) -> dict[str, Any]:
    kafka = {
        "brokers": [broker.address],
        "topic_prefix": f"{uuid4()}.",
        "partitions": 4,
        "session_seconds": broker.session_seconds,
    }
    return {
        "assembler": {"quiet_seconds": 1.0},
        "journal": {"kafka": kafka},
        "store": {"url": f"{store_url}/default"},
    }


async def with_tables(folder: Path) -> None:
    store = await ClickHouseStore.open(
        f"chdb://{folder}", StoreConfig(), Metrics(CollectorRegistry())
    )
    await store.close()


def get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=30, trust_env=False)


def series(agent: AgentProcess, name: str, **labels: str) -> list[float]:
    """Return the values that a process exports of a metric."""
    return [
        sample.value
        for family in text_string_to_metric_families(get(agent.urls["metrics"]).text)
        for sample in family.samples
        if sample.name == f"groundwatch_{name}" and labels.items() <= sample.labels.items()
    ]


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.2)


def reports(agent: AgentProcess) -> bool:
    return series(agent, "role", role="reporter") == [1.0]


# Where the leader of a group goes, the small broker may leave the others without one.
@pytest.mark.apache_kafka
@pytest.mark.timeout(600)
def test_roles_apart_judge_each_request_once_and_another_reporter_takes_over(
    tmp_path: Path, broker: Broker
) -> None:
    asyncio.run(with_tables(tmp_path / "clickhouse"))
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path / "clickhouse"))
        config = config_of(broker, server.url)
        agents: dict[str, AgentProcess] = {}
        nowhere = {"store": {"url": "http://127.0.0.1:1/default"}}
        for name, role in ROLES.items():
            (tmp_path / name).mkdir()
            # A receiver asks for no store.
            own = config | nowhere if role == "receiver" else config
            agents[name] = AgentProcess(tmp_path / name, own, roles=role)
        with ThreadPoolExecutor() as pool:
            list(pool.map(stack.enter_context, agents.values()))
        for name, agent in agents.items():
            assert agent.urls.keys() - {"id", "token"} == LISTENS.get(name, {"metrics"})
            for path in ("healthz", "readyz"):
                answer = get(agent.urls["metrics"].replace("/metrics", f"/{path}"))
                assert answer.json()["ok"], (name, path)

        messages = list(bodies(TRACES, 1))
        for message in messages:
            url = f"{agents['receiver'].urls['otlp_http']}/v1/traces"
            answer = httpx.post(url, content=message, headers=HEADERS, timeout=30, trust_env=False)
            assert answer.status_code == httpx.codes.OK
        totals = agents["review"].totals
        until(
            lambda: totals()["requests"] == TRACES and not totals()["waiting"],
            "all requests are judged, and the review has them",
        )
        total = totals()
        assert total["accounting_ok"]
        assert total["judged"] + sum(total["failed"].values()) == total["eligible"] > 0
        assert agents["review"].report("review")["conversations"]
        counted = sum(series(agents["judge"], "requests_judged_total"))
        assert counted == total["judged"], "judged once each"
        assert sum(series(agents["processor"], "requests_total")) == TRACES
        for agent in agents.values():
            assert series(agent, "accounting_difference") == [0.0]

        both = agents["reporter-1"], agents["reporter-2"]
        until(lambda: any(map(reports, both)), "somebody reports")
        first, second = both if reports(both[0]) else both[::-1]
        until(lambda: len(series(first, "judge_trusted")) == 1, "the reporter says what it knows")
        assert not reports(second)
        for agent in agents.values():
            if agent is not first:
                assert not series(agent, "judge_trusted"), "nobody else does"
        first.kill()
        until(lambda: reports(second), "the other takes over")
        until(lambda: len(series(second, "judge_trusted")) == 1, "and says what it knows")
        first.start()
        assert series(first, "role", role="reporter") == [0.0]
        assert second.stop() == 0
        until(lambda: reports(first), "it is handed the turn of one that stops")
