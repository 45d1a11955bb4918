"""A real Prometheus scrapes the agent: nothing to complain about, and the accounting adds up."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.bench.end_to_end import send
from tests.bench.load import bodies
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
