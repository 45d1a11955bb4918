"""A real Prometheus scrapes the agent: nothing to complain about, and the accounting adds up."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bench.end_to_end import send
from tests.bench.load import bodies
from tests.processes import AgentProcess, free_port

pytestmark = pytest.mark.prometheus

IDENTITY = "sum({__name__=~'groundwatch_requests_(eligible_total|carried_over)'})" + "".join(
    f" - (sum(groundwatch_requests_{state}) or vector(0))"
    for state in ("not_sampled_total", "judged_total", "failed_total", "waiting")
)


class Prometheus:
    """A real server that scrapes one target every 200 ms."""

    def __init__(self, folder: Path, target: str) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._log = folder / "prometheus.log"
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
            "scrape_configs:\n"
            f"  - {{job_name: groundwatch, static_configs: [{{targets: ['{target}']}}]}}\n"
        )
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder / 'tsdb'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                    "--log.level=debug",
                ],
                stdout=log,
                stderr=log,
            )

    def query(self, promql: str) -> list[dict[str, Any]]:
        answer = httpx.get(
            f"{self.url}/api/v1/query", params={"query": promql}, timeout=10, trust_env=False
        )
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found

    def samples(self, promql: str, since: float) -> list[float]:
        answer = httpx.get(
            f"{self.url}/api/v1/query_range",
            params={"query": promql, "start": since, "end": time.time(), "step": "0.2"},
            timeout=10,
            trust_env=False,
        )
        return [float(v) for s in answer.json()["data"]["result"] for _, v in s["values"]]

    def complaints(self) -> list[str]:
        lines = self._log.read_text().splitlines()
        scraping = [line for line in lines if "scrape" in line]
        return [
            line
            for line in scraping
            if "level=warn" in line or "level=error" in line or "failed" in line.lower()
        ]

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                if any(r["value"][1] == "1" for r in self.query("up")):
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(self._log.read_text()[-2000:])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    with AgentProcess(
        tmp_path, {"assembler": {"quiet_seconds": 0.3}, "sampling": {"rate": 0.6}}
    ) as running:
        yield running


def test_the_accounting_adds_up_at_every_scrape(agent: AgentProcess, tmp_path: Path) -> None:
    target = agent.urls["metrics"].removeprefix("http://").removesuffix("/metrics")
    prometheus = Prometheus(tmp_path, target)
    try:
        prometheus.wait_until_up()
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
        assert prometheus.complaints() == []
    finally:
        prometheus.stop()


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
