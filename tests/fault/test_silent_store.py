"""A ClickHouse server that falls silent keeps nobody from stopping."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from sinks.migrate import migrate_url
from tests.bench.load import bodies
from tests.fakes.openai_server import OpenAIServer
from tests.processes import AgentProcess

HEADERS = {"content-type": "application/x-protobuf"}


@contextmanager
def clickhouse(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "tests.fakes.clickhouse_http", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            migrate_url(f"{url}/default", cluster=None)
            yield process, f"{url}/default"
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()


def test_an_agent_stops_soon_though_its_store_is_silent_and_goes_on_later(tmp_path: Path) -> None:
    prices = {"judge-1": {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 4.0}}
    with clickhouse(tmp_path / "server") as (server, url), OpenAIServer() as model:
        openai = {"model": "judge-1", "base_url": model.base_url, "api_key_env": None}
        config = {
            "assembler": {"quiet_seconds": 0.5},
            "store": {"url": url},
            "judge": {"engine": "openai", "openai": {**openai, "prices": prices}},
        }
        (tmp_path / "agent").mkdir()
        with AgentProcess(tmp_path / "agent", config) as agent:
            server.send_signal(signal.SIGSTOP)
            for body in bodies(5, 2):
                place = f"{agent.urls['otlp_http']}/v1/traces"
                httpx.post(place, content=body, headers=HEADERS, trust_env=False)
            time.sleep(2)  # until it asks the store
            assert agent.process is not None
            agent.process.terminate()
            # shutdown_seconds, and some for each thing to close; the client waits for 300.
            assert agent.process.wait(40) == 0
            server.send_signal(signal.SIGCONT)
            agent.start()
