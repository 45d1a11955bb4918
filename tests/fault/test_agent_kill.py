"""`kill -9` of the agent at random moments loses nothing acknowledged and doubles nothing read."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore
from tests.bench.load import bodies, spans_of
from tests.processes import AgentProcess

KILLS = 25
CONFIG = {"assembler": {"quiet_seconds": 0.2}, "judge": {"concurrency": 16}}


class Sender(threading.Thread):
    """Sends bodies one after the other until stopped; notes which traces were acknowledged."""

    def __init__(self, endpoint: str, payloads: list[bytes]) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._payloads = payloads
        self.acknowledged: set[str] = set()
        self.sent: set[str] = set()
        self.stopped = threading.Event()

    def run(self) -> None:
        headers = {"content-type": "application/x-protobuf"}
        with httpx.Client(base_url=self._endpoint, timeout=10, trust_env=False) as client:
            for body in self._payloads:
                if self.stopped.is_set():
                    return
                ids = trace_ids(body)
                self.sent |= ids
                try:
                    answer = client.post("/v1/traces", content=body, headers=headers)
                except httpx.TransportError:
                    return
                if answer.status_code == httpx.codes.OK:
                    self.acknowledged |= ids


def trace_ids(body: bytes) -> set[str]:
    return {s.trace_id.hex() for s in spans_of(ExportTraceServiceRequest.FromString(body))}


@pytest.mark.timeout(900)
def test_every_acknowledged_trace_is_stored_once_after_many_kills(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, CONFIG)
    rng = random.Random(11)
    acknowledged: set[str] = set()
    sent: set[str] = set()
    for kill in range(KILLS):
        agent.start()
        sender = Sender(agent.urls["otlp_http"], list(bodies(200, 2, seed=kill)))
        sender.start()
        time.sleep(rng.uniform(0.05, 1.2))
        agent.kill()
        sender.stopped.set()
        sender.join()
        acknowledged |= sender.acknowledged
        sent |= sender.sent
    assert len(acknowledged) > KILLS
    with agent:
        settle(agent, len(acknowledged))
        totals = agent.totals()
    stored = asyncio.run(known(agent.data_dir, sent))
    assert acknowledged <= stored
    # Exactly once: as many requests are counted as there are distinct traces.
    assert totals["requests"] == len(stored)
    assert totals["accounting_ok"]
    assert totals["waiting"] == 0
    assert totals["judged"] + sum(totals["failed"].values()) == totals["eligible"]


def settle(agent: AgentProcess, at_least: int) -> None:
    """Wait until the journal is worked off."""
    deadline = time.monotonic() + 120
    before = -1
    while time.monotonic() < deadline:
        totals = agent.totals()
        if (
            totals["requests"] >= at_least
            and totals["waiting"] == 0
            and totals["requests"] == before
        ):
            return
        before = totals["requests"]
        time.sleep(1.5)
    raise AssertionError(f"the agent did not settle: {totals}")


async def known(data_dir: Path, ids: set[str]) -> set[str]:
    url = f"chdb://{data_dir / 'clickhouse'}"
    store = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    try:
        wanted = sorted(ids)
        found: set[str] = set()
        for start in range(0, len(wanted), 500):
            found |= set(await store.known(wanted[start : start + 500]))
        return found
    finally:
        await store.close()
