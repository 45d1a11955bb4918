"""A real agent in a process of its own, for tests that kill it and benches that measure it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import httpx
from ruamel.yaml import YAML

START_SECONDS = 120.0
LISTEN = dict.fromkeys(("otlp_grpc", "otlp_http", "metrics", "review"), "127.0.0.1:0")


class AgentProcess:
    """`groundwatch run` on free ports with its data below `folder`. A context manager.

    Args:
        folder: where config, data and log lie; a second process on it finds the first one's data.
        config: sections that differ from the defaults.
        environ: environment variables to add.
        roles: of this process; all by default.
    """

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        environ: dict[str, str] | None = None,
        roles: str | None = None,
    ) -> None:
        self.data_dir = folder / "data"
        self.log = folder / "agent.log"
        self._config = folder / "groundwatch.yaml"
        self._roles = ["--roles", roles] if roles else []
        self._environ = {**os.environ, **(environ or {})}
        YAML(typ="safe", pure=True).dump(
            {
                "data_dir": str(self.data_dir),
                **config,
                "listen": LISTEN | config.get("listen", {}),
            },
            self._config,
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.urls: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()

    def start(self) -> None:
        """Start, and wait until all ports answer."""
        announced = self.data_dir / "agent.json"
        announced.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "collector", "run", "-c", str(self._config), *self._roles],
                stdout=log,
                stderr=log,
                env=self._environ,
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the agent did not start:\n{self.log.read_text()[-3000:]}")
            if announced.exists() and (text := announced.read_text()):
                self.urls = json.loads(text)
                return
            time.sleep(0.02)
        raise RuntimeError("the agent did not say where it listens in time")

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        """Kill it at once, without any chance to clean up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def report(self, name: str, **options: Any) -> dict[str, Any]:
        """Ask its API for a report over all time."""
        window = {"since": "2000-01-01T00:00:00+00:00", "until": "2100-01-01T00:00:00+00:00"}
        answer = httpx.get(
            f"{self.urls['review']}/api/{name}",
            params=window | options,
            timeout=60,
            trust_env=False,
        )
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def totals(self) -> dict[str, Any]:
        """Return accounting and estimate over all segments."""
        total: dict[str, Any] = self.report("estimates")["total"]
        return total

    def run_command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command with this agent's config."""
        return subprocess.run(
            [sys.executable, "-m", "collector", *words, "-c", str(self._config)],
            capture_output=True,
            text=True,
            timeout=120,
            env=self._environ,
            check=False,
        )

    def cpu_seconds(self) -> float:
        """Return user and system seconds it has used so far (Linux)."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mib(self) -> float:
        """Return its peak resident memory (Linux)."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def free_port() -> int:
    """Return a TCP port that nothing listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
