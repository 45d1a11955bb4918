"""A real Prometheus server for tests."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any, Self

import httpx

from tests.processes import free_port


class Prometheus:
    """A real server that scrapes its targets every half second. A context manager.

    Args:
        folder: where its config, data and log lie.
        targets: host:port of each.
        rules: a rule file, evaluated every second.
    """

    def __init__(self, folder: Path, targets: list[str], rules: Path | None = None) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._log = folder / "prometheus.log"
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}\n"
            f"rule_files: [{'' if rules is None else rules}]\n"
            "scrape_configs:\n"
            f"  - {{job_name: groundwatch, static_configs: [{{targets: {targets}}}]}}\n"
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

    def __enter__(self) -> Self:
        try:
            self.wait_until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(20)

    def query(self, promql: str) -> list[dict[str, Any]]:
        answer = httpx.get(
            f"{self.url}/api/v1/query", params={"query": promql}, timeout=10, trust_env=False
        )
        answer.raise_for_status()
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
        """Return what it logged about the exposition; a late answer is no fault of that."""
        return [
            line
            for line in self._log.read_text().splitlines()
            if "scrape" in line
            and ("level=warn" in line or "level=error" in line or "append failed" in line.lower())
        ]

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                if any(r["value"][1] == "1" for r in self.query("up")):
                    return
            except httpx.HTTPError:  # it answers 503 while it starts
                pass
            time.sleep(0.1)
        raise AssertionError(self._log.read_text()[-2000:])
