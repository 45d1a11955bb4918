"""A real Prometheus scrapes the agent: nothing to complain about, and the accounting adds up."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry
from ruamel.yaml import YAML

from collector.config import StoreConfig
from collector.telemetry import Metrics
from dashboards import prometheus_rules
from dashboards.estimates import sums_of
from scorers.lexical import FINGERPRINT
from scorers.stats import ppi
from scorers.stats.ppi import PpiSums
from scorers.stats.weighted import Estimate
from sinks.clickhouse import ClickHouseStore
from tests.bench.end_to_end import send
from tests.bench.load import bodies
from tests.known_means import Planted, plant
from tests.known_means import bodies as planted_bodies
from tests.processes import AgentProcess
from tests.prometheus_server import Prometheus
from tests.readme_tables import README

pytestmark = pytest.mark.prometheus

IDENTITY = "sum({__name__=~'groundwatch_requests_(eligible_total|carried_over)'})" + "".join(
    f" - (sum(groundwatch_requests_{state}) or vector(0))"
    for state in ("not_sampled_total", "judged_total", "failed_total", "waiting")
)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    with AgentProcess(
        tmp_path, {"assembler": {"quiet_seconds": 0.3}, "sampling": {"rate": 0.6}}
    ) as running:
        yield running


def test_the_accounting_adds_up_at_every_scrape(agent: AgentProcess, tmp_path: Path) -> None:
    with Prometheus(tmp_path, [target(agent)]) as prometheus:
        started = time.time()
        payloads = list(bodies(40, 10))
        asyncio.run(send(agent.urls["otlp_http"], payloads))
        deadline = time.monotonic() + 60
        while agent.totals()["requests"] < 400 or agent.totals()["waiting"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        time.sleep(1)
        totals = agent.totals()
        assert set(prometheus.samples(IDENTITY, started)) == {0.0}
        assert set(prometheus.samples("groundwatch_accounting_difference", started)) == {0.0}
        assert len(prometheus.samples("groundwatch_accounting_difference", started)) > 10
        for name in ("eligible", "not_sampled", "judged"):
            (result,) = prometheus.query(f"sum(groundwatch_requests_{name}_total)")
            assert int(result["value"][1]) == totals[name]
        (mean,) = prometheus.query(
            "1 - sum(groundwatch_faithfulness_weighted_loss_total)"
            " / sum(groundwatch_faithfulness_weight_total)"
        )
        assert float(mean["value"][1]) == pytest.approx(totals["estimate"], abs=1e-9)
        found = prometheus.query(readme_expression())
        # Series that were never scraped at 0 have no increase yet; there is nothing, and no NaN.
        assert "NaN" not in {row["value"][1] for row in found}
        assert prometheus.complaints() == []


def readme_expression() -> str:
    (found,) = re.findall(r"```promql\n(.*?)```", README.read_text(), re.DOTALL)
    return str(found)


def target(agent: AgentProcess) -> str:
    return agent.urls["metrics"].removeprefix("http://").removesuffix("/metrics")


def test_the_exposition_passes_promtool(agent: AgentProcess) -> None:
    asyncio.run(send(agent.urls["otlp_http"], list(bodies(2, 5))))
    exposition = httpx.get(agent.urls["metrics"], timeout=10, trust_env=False).text
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=exposition,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "_created" not in exposition


def test_two_replicas_and_a_restart_give_the_estimate_of_clickhouse(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    """Each replica has a store of its own; one is restarted with counts that nobody scraped."""
    traffic = plant(requests=240, segments=2)
    first, second = (replica(tmp_path / name, free_port()) for name in ("first", "second"))
    with ExitStack() as stack:
        for agent in (first, second):
            stack.enter_context(agent)
        prometheus = stack.enter_context(
            Prometheus(tmp_path, [target(first), target(second)], hourly_rules(tmp_path))
        )
        for start in range(0, len(traffic), 80):
            judge_all(first, traffic[start : start + 40])
            judge_all(second, traffic[start + 40 : start + 80])
            if start == 240:
                second.stop()
                second.start()
        judged = sum(agent.totals()["judged"] for agent in (first, second))
        deadline = time.monotonic() + 60
        while sum_of(prometheus, "segment:groundwatch_faithfulness_n:1h") < 0.99 * judged:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        time.sleep(3)  # the other sums and what follows from them, at the next scrape and round
        shown = {
            (quantity, found["metric"]["segment"]): float(found["value"][1])
            for quantity in ("mean", "low", "high", "n_eff")
            for found in prometheus.query(f"segment:groundwatch_faithfulness_{quantity}:1h")
        }
    stored = asyncio.run(estimates_of(first, second))
    assert len(stored) == 2
    for segment, estimate in stored.items():
        assert shown["mean", segment] == pytest.approx(estimate.mean, abs=0.005)
        assert shown["low", segment] == pytest.approx(estimate.low, abs=0.01)
        assert shown["high", segment] == pytest.approx(estimate.high, abs=0.01)
        assert shown["n_eff", segment] == pytest.approx(estimate.n_eff, rel=0.05)
        assert estimate.n_eff > 100


def sum_of(prometheus: Prometheus, series: str) -> float:
    return sum(float(found["value"][1]) for found in prometheus.query(series))


def replica(folder: Path, port: int) -> AgentProcess:
    """Return an agent that keeps its address for scrapes over a restart."""
    folder.mkdir()
    rules = {"rules": [{"name": "by attribute", "attribute": "segment"}]}
    return AgentProcess(
        folder,
        {
            "assembler": {"quiet_seconds": 0.3},
            "sampling": {"rate": 0.6},
            "segments": rules,
            "listen": {"metrics": f"127.0.0.1:{port}"},
        },
    )


def judge_all(agent: AgentProcess, traffic: Sequence[Planted]) -> None:
    """Send traffic; return as soon as all of it is judged."""
    before = agent.totals()["requests"]
    asyncio.run(send(agent.urls["otlp_http"], list(planted_bodies(traffic))))
    deadline = time.monotonic() + 60
    while (totals := agent.totals())["requests"] < before + len(traffic) or totals["waiting"]:
        assert time.monotonic() < deadline, totals
        time.sleep(0.05)


def hourly_rules(folder: Path) -> Path:
    """Write the rules of the hourly window, evaluated every second."""
    (hourly,) = (g for g in prometheus_rules.rules()["groups"] if g["name"].endswith("-1h"))
    path = folder / "rules.yml"
    YAML(typ="safe", pure=True).dump({"groups": [hourly | {"interval": "1s"}]}, path)
    return path


async def estimates_of(*agents: AgentProcess) -> dict[str, Estimate]:
    """Return the estimate by segment over the stores of all agents together."""
    added: dict[str, PpiSums] = {}
    window = {
        "since": datetime.now(UTC) - timedelta(hours=1),
        "until": datetime.now(UTC),
        "segment": "",
        "scorer": "faithfulness",
        "fingerprint": FINGERPRINT,
    }
    for agent in agents:
        url, metrics = f"chdb://{agent.data_dir / 'clickhouse'}", Metrics(CollectorRegistry())
        store = await ClickHouseStore.open(url, StoreConfig(), metrics)
        for row in await store.rows("estimate_sums", window):
            added[row["segment"]] = added.get(row["segment"], PpiSums()) + sums_of(row)
        await store.close()
    return {segment: ppi.estimate(sums) for segment, sums in added.items()}
