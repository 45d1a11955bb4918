"""Spans per second from OTLP/HTTP to rows that can be queried, beside the floor of the same data.

python -m tests.bench.end_to_end [--traces 6000]

The floor parses the same protobuf bodies and inserts one row a trace into the same engine, with
nothing else: no journal, no assembly, no scoring, no HTTP. Ratios against it, measured in the same
run on the same machine, are comparable; absolute figures of different machines are not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.bench.load import bodies, spans_of
from tests.processes import AgentProcess

CONNECTIONS = 8
TRACES_PER_BODY = 50


class Measured(NamedTuple):
    """Figures of one run."""

    spans: int
    ack_seconds: float
    visible_seconds: float
    cpu_seconds: float
    peak_mib: float

    def row(self, name: str) -> str:
        """Return one line of the table."""
        acked, visible = self.spans / self.ack_seconds, self.spans / self.visible_seconds
        return (
            f"{name:28}{acked:12,.0f}{visible:14,.0f}"
            f"{self.cpu_seconds / self.spans * 1000:18.3f}{self.peak_mib:12,.0f}"
        )


async def send(endpoint: str, payloads: list[bytes]) -> float:
    """Send all bodies over a few connections, waiting when told to; return the seconds taken."""
    queue = list(reversed(payloads))
    started = time.monotonic()
    async with httpx.AsyncClient(base_url=endpoint, timeout=120, trust_env=False) as client:

        async def sender() -> None:
            while queue:
                body = queue.pop()
                while True:
                    answer = await client.post(
                        "/v1/traces",
                        content=body,
                        headers={"content-type": "application/x-protobuf"},
                    )
                    if answer.status_code == httpx.codes.OK:
                        break
                    await asyncio.sleep(float(answer.headers.get("retry-after", "0.2")) / 4)

        await asyncio.gather(*(sender() for _ in range(CONNECTIONS)))
    return time.monotonic() - started


def measure_agent(payloads: list[bytes], traces: int, spans: int) -> Measured:
    """Run a real agent as its own process and push everything through it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        AgentProcess(Path(folder), {"assembler": {"quiet_seconds": 0.5}}) as agent,
    ):
        started = time.monotonic()
        acked = asyncio.run(send(agent.urls["otlp_http"], payloads))
        while agent.totals()["requests"] < traces:
            time.sleep(0.5)
        visible = time.monotonic() - started
        return Measured(spans, acked, visible, agent.cpu_seconds(), agent.peak_mib())


def measure_floor(payloads: list[bytes], spans: int) -> Measured:
    """Parse and insert the same data in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "bodies"
        data.mkdir()
        for number, body in enumerate(payloads):
            (data / f"{number:06}").write_bytes(body)
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.floor", str(data), folder],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
    figures = json.loads(done.stdout)
    seconds = figures["seconds"]
    return Measured(spans, seconds, seconds, figures["cpu_seconds"], figures["peak_mib"])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=6000)
    arguments = parser.parse_args()
    payloads = list(bodies(arguments.traces // TRACES_PER_BODY, TRACES_PER_BODY))
    traces = len(payloads) * TRACES_PER_BODY
    spans = sum(len(spans_of(ExportTraceServiceRequest.FromString(b))) for b in payloads)
    size = sum(map(len, payloads))
    print(f"{traces} traces, {spans} spans, {size / 1e6:.0f} MB, {CONNECTIONS} connections\n")
    print(f"{'':28}{'acked/s':>12}{'visible/s':>14}{'CPU s/1000 spans':>18}{'peak MiB':>12}")
    floor = measure_floor(payloads, spans)
    print(floor.row("floor: parse + insert"))
    agent = measure_agent(payloads, traces, spans)
    print(agent.row("groundwatch, end to end"))
    print(
        f"\nvisible spans per second: {floor.visible_seconds / agent.visible_seconds:.3f} of the "
        f"floor; CPU: {agent.cpu_seconds / floor.cpu_seconds:.1f} times the floor"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
