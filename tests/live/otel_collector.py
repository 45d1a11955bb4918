"""A real OpenTelemetry Collector in a process of its own, as `make test-collector` builds it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx
from ruamel.yaml import YAML

from tests.processes import free_port

BINARY = "GROUNDWATCH_COLLECTOR"
"""Environment variable with the path of the built Collector."""
START_SECONDS = 30.0
STOP_SECONDS = 60.0
TRACES, LOGS = "v1/traces", "v1/logs"


class OtelCollector:
    """One Collector on free ports, with an example of ours and what is laid over it.

    Args:
        folder: where the overlay and the log are put.
        configs: files, later ones laid over earlier ones.
        overlay: laid over all of them.
    """

    def __init__(self, folder: Path, configs: Sequence[Path], overlay: dict[str, Any]) -> None:
        ports = {name: free_port() for name in ("grpc", "http")}
        protocols = {name: {"endpoint": f"127.0.0.1:{port}"} for name, port in ports.items()}
        telemetry = {"metrics": {"level": "none"}}  # else all of them take the same port
        service = {"telemetry": telemetry} | overlay.get("service", {})
        laid_over = overlay | {"receivers": {"otlp": {"protocols": protocols}}, "service": service}
        self.log = folder / "collector.log"
        self._overlay = folder / "overlay.yaml"
        YAML(typ="safe", pure=True).dump(laid_over, self._overlay)
        self._options = [f"--config={path}" for path in (*configs, self._overlay)]
        self._url = f"http://127.0.0.1:{ports['http']}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([binary(), *self._options], stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                httpx.get(self._url, trust_env=False)
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                return self
        self._process.kill()
        raise RuntimeError(f"the Collector did not start:\n{self.log.read_text()[-3000:]}")

    def __exit__(self, *_: object) -> None:
        """Stop it; it writes out what it holds."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()

    def send(self, path: str, bodies: Sequence[bytes]) -> None:
        """Send bodies over OTLP/HTTP, one after the other."""
        headers = {"content-type": "application/x-protobuf"}
        with httpx.Client(base_url=self._url, headers=headers, trust_env=False) as client:
            for body in bodies:
                client.post(path, content=body).raise_for_status()

    def complaints(self) -> list[str]:
        """Return what it logged as an error."""
        return [line for line in self.log.read_text().splitlines() if "\terror\t" in line]


def fault_of(configs: Sequence[Path]) -> str:
    """Return what the Collector says is wrong with a configuration, "" if nothing is."""
    options = [f"--config={path}" for path in configs]
    done = subprocess.run(
        [binary(), "validate", *options], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stderr.strip() if done.returncode else ""


def binary() -> str:
    """Return the path of the built Collector."""
    return os.environ[BINARY]
