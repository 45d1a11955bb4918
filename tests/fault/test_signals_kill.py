"""`kill -9` at random moments loses no accepted signal, of whichever client, and doubles none."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import Signal, StoredRequest
from collector.telemetry import Metrics
from scorers.lexical import LexicalJudge
from sinks.clickhouse import ClickHouseStore
from tests.bench.load import bodies, spans_of
from tests.processes import AgentProcess

KILLS = 10
CONFIG = {"assembler": {"quiet_seconds": 0.2}, "sampling": {"rate": 0.05}}
PROTOBUF = {"content-type": "application/x-protobuf"}


class User(threading.Thread):
    """Has requests traced and complains about them, until the agent is gone."""

    def __init__(self, endpoint: str, seed: int) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._bodies = bodies(200, 1, seed=seed)
        self.stopped = threading.Event()
        self.accepted: dict[str, str] = {}
        """Trace complained about, by signal id."""
        self.traced: set[str] = set()

    def run(self) -> None:
        with httpx.Client(base_url=self._endpoint, timeout=10, trust_env=False) as client:
            try:
                for number, body in enumerate(self._bodies):
                    if self.stopped.is_set():
                        return
                    self._one(client, number, body)
            except httpx.TransportError:
                return

    def _one(self, client: httpx.Client, number: int, body: bytes) -> None:
        trace_ids = {s.trace_id.hex() for s in spans_of(ExportTraceServiceRequest.FromString(body))}
        if client.post("/v1/traces", content=body, headers=PROTOBUF).is_success:
            self.traced |= trace_ids
        for trace_id in sorted(trace_ids):
            signal_id = str(uuid4())
            path, call = complaint(number % 3, signal_id, trace_id)
            if client.post(path, json=call).is_success:
                self.accepted[signal_id] = trace_id


def complaint(client: int, signal_id: str, trace_id: str) -> tuple[str, Any]:
    """Return a thumb down as one of three clients posts it."""
    if client == 0:
        own = {"signal_id": signal_id, "trace_id": trace_id, "kind": "thumbs_down"}
        return "/v1/signals", own
    if client == 1:
        score = {"id": signal_id, "traceId": trace_id, "name": "user-feedback", "value": 0}
        return "/api/public/scores", [score]
    run = str(UUID(trace_id))
    return "/feedback", {"id": signal_id, "run_id": run, "key": "user_score", "score": 0}


@pytest.mark.timeout(900)
def test_every_accepted_signal_is_stored_once_after_many_kills(tmp_path: Path) -> None:
    rng = random.Random(7)
    agent = AgentProcess(tmp_path, CONFIG)
    accepted: dict[str, str] = {}
    traced: set[str] = set()
    for kill in range(KILLS):
        agent.start()
        user = User(agent.urls["otlp_http"], seed=100 + kill)
        user.start()
        time.sleep(rng.uniform(0.1, 1.5))
        agent.kill()
        user.stopped.set()
        user.join()
        accepted |= user.accepted
        traced |= user.traced
    assert len(accepted) > KILLS

    with agent:
        settle(agent)
        totals = agent.totals()
    found = asyncio.run(look(agent.data_dir, accepted, traced))
    stored, requests, judged = found.signals, found.requests, found.judged

    assert {signal.signal_id for signal in stored} == set(accepted)
    assert {signal.kind for signal in stored} == {"thumbs_down"}
    # A signal whose acknowledgement was cut off may be stored as well, never one of another id.
    assert len(accepted) <= found.counted <= len(accepted) + KILLS
    assert totals["accounting_ok"]
    # Whoever complained has an answer that was judged, and weighs what the rate for them says.
    unhappy = set(accepted.values()) & traced & set(requests)
    assert unhappy
    for trace_id in unhappy:
        assert requests[trace_id].decision.probability == 1.0
        assert trace_id in judged or requests[trace_id].ineligible is not None


def settle(agent: AgentProcess) -> None:
    """Wait until the journal is worked off."""
    deadline = time.monotonic() + 120
    with httpx.Client(timeout=10, trust_env=False) as client:
        while time.monotonic() < deadline:
            lines = client.get(agent.urls["metrics"]).text.splitlines()
            lags = [line for line in lines if line.startswith("groundwatch_journal_lag_records{")]
            if lags and all(float(line.rpartition(" ")[2]) == 0 for line in lags):
                return
            time.sleep(1.5)
    raise AssertionError("the agent did not settle")


class Found(NamedTuple):
    """What the store holds; `counted` is how many sent signals its readers count."""

    signals: list[Signal]
    requests: dict[str, StoredRequest]
    judged: set[str]
    counted: int


async def look(data_dir: Path, accepted: dict[str, str], traced: set[str]) -> Found:
    url = f"chdb://{data_dir / 'clickhouse'}"
    store = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    now = datetime.now(UTC)
    window = {"since": now - timedelta(days=1), "until": now + timedelta(days=1)}
    try:
        rows = await store.rows("signals_summary", window)
        return Found(
            await store.signals_with(sorted(accepted)),
            await store.requests(sorted(traced)),
            set(await store.judged_versions(sorted(traced), LexicalJudge.fingerprint)),
            sum(row["signals"] for row in rows if not row["inferred"]),
        )
    finally:
        await store.close()
