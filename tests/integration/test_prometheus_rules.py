"""The recording rules give what the store gives: over two replicas, one of them restarted."""

from __future__ import annotations

import asyncio
import subprocess
import time
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.demo.scenario import scenario
from collector.demo.traffic import play
from collector.telemetry import Metrics
from dashboards import prometheus_rules
from dashboards.estimates import sums_of
from scorers.lexical import LexicalJudge
from scorers.stats.weighted import Sums, estimate
from sinks.clickhouse import ClickHouseStore
from tests.processes import AgentProcess, free_port
from tests.prometheus_server import Prometheus

pytestmark = pytest.mark.prometheus
RULES = Path(prometheus_rules.__file__).parent / "rules" / "recording.yml"


def test_the_rule_file_is_current_and_valid() -> None:
    assert RULES.read_text() == prometheus_rules.rendered()
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_two_replicas_and_a_restart_give_the_estimate_of_the_store(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES.read_text().replace("interval: 1m", "interval: 1s"))
    replicas = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        config = {
            "assembler": {"quiet_seconds": 0.2},
            "sampling": {"rate": 0.7, "salt": name},
            "listen": {"metrics": f"127.0.0.1:{free_port()}"},
        }
        replicas.append(AgentProcess(tmp_path / name, config))
    first, second = replicas
    # A counter that is first scraped with a value has no increase. Segments of an earlier run are
    # announced at 0 when an agent starts; so there is one before Prometheus looks.
    with first, second:
        _play(first, "warm")
        _play(second, "warm")
    before = _stored(replicas)
    with (
        first,
        second,
        Prometheus(tmp_path, [_target(replica) for replica in replicas], rules) as prometheus,
    ):
        _settle_scrapes()
        for replica, run in ((first, "a"), (second, "b")):
            _play(replica, run)
        _settle_scrapes()
        assert first.stop() == 0
        first.start()
        _settle_scrapes()
        for replica, run in ((first, "c"), (second, "d")):
            _play(replica, run)
        _settle_scrapes()
        recorded = {
            name: _values(prometheus, f"segment:groundwatch_faithfulness_{name}:1h")
            for name in ("mean", "low", "high", "n_eff")
        }
    after = _stored(replicas)
    assert set(recorded["mean"]) == set(after)
    for segment, sums in after.items():
        found = estimate(_less(sums, before[segment]))
        assert recorded["mean"][segment] == pytest.approx(found.mean, abs=0.005)
        # increase() extrapolates to the ends of its window: a few per cent of every sum alike.
        assert recorded["n_eff"][segment] == pytest.approx(found.n_eff, rel=0.15)
        assert recorded["low"][segment] == pytest.approx(found.low, abs=0.03)
        assert recorded["high"][segment] == pytest.approx(found.high, abs=0.03)


def _less(sums: Sums, before: Sums) -> Sums:
    additive = ("n", "w", "wl", "wll", "w2", "w2l", "w2ll", "n_failed", "w_failed")
    left = {key: getattr(sums, key) - getattr(before, key) for key in additive}
    return msgspec.structs.replace(sums, **left)


def _settle_scrapes() -> None:
    time.sleep(2.5)


def _target(agent: AgentProcess) -> str:
    return agent.urls["metrics"].removeprefix("http://").removesuffix("/metrics")


def _play(agent: AgentProcess, run: str) -> None:
    before = agent.totals()["requests"]
    played = asyncio.run(play(scenario(run_id=run), otlp_url=agent.urls["otlp_http"]))
    deadline = time.monotonic() + 60
    while True:
        totals = agent.totals()
        if totals["requests"] >= before + played.requests and totals["waiting"] == 0:
            return
        assert time.monotonic() < deadline, totals
        time.sleep(0.2)


def _values(prometheus: Prometheus, metric: str) -> dict[str, float]:
    return {r["metric"]["segment"]: float(r["value"][1]) for r in prometheus.query(metric)}


def _stored(replicas: list[AgentProcess]) -> dict[str, Sums]:
    by_segment: dict[str, list[Sums]] = {}
    for replica in replicas:
        for row in asyncio.run(_rows(replica.data_dir)):
            by_segment.setdefault(row["segment"], []).append(sums_of(row))
    return {segment: reduce(lambda a, b: a + b, parts) for segment, parts in by_segment.items()}


async def _rows(data_dir: Path) -> list[dict[str, Any]]:
    url = f"chdb://{data_dir / 'clickhouse'}"
    store = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    parameters = {
        "since": datetime(2000, 1, 1, tzinfo=UTC),
        "until": datetime(2100, 1, 1, tzinfo=UTC),
        "segment": "",
        "scorer": "faithfulness",
        "fingerprint": LexicalJudge().fingerprint,
    }
    try:
        return await store.rows("estimate_sums", parameters)
    finally:
        await store.close()
