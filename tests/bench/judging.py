"""Calls per second to a judging model with a stated limit, and what a call costs in CPU.

python -m tests.bench.judging [--per-second 80] [--requests 600]

The model is a fake in this process, so it takes CPU of the same machine. It counts every call that
exceeds its limit in any second, wherever that begins.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from bisect import bisect_left
from pathlib import Path
from typing import Any, NamedTuple

from collector.model import Span
from collector.trace_files.encode import body_of_spans
from tests.bench.end_to_end import send
from tests.fakes.openai_server import OpenAIServer, StatedLimit
from tests.fakes.requests import asked_now
from tests.processes import AgentProcess

REQUESTS_PER_BODY = 50
CALLS_PER_REQUEST = 2
SETTLING_SECONDS = 2.0
WINDOW_SECONDS = 5.0
GIVE_UP_SECONDS = 300.0
FILLER = "Nothing of interest is written on this page, whatever you may ask. "


class Measured(NamedTuple):
    """Calls a second once under way, and in the fastest seconds of `WINDOW_SECONDS`.

    Calls over the limit, and CPU seconds of the agent a call.
    """

    per_second: float
    fastest: float
    violations: int
    cpu_seconds: float


def judge_all(folder: Path, per_second: int, requests: int, limit_seconds: float = 1.0) -> Measured:
    """Have an agent judge some requests by a model that limits calls in so many seconds."""
    limit = StatedLimit(per_second, seconds=limit_seconds)
    calls = CALLS_PER_REQUEST * requests
    with (
        OpenAIServer(default=limit) as server,
        AgentProcess(folder, config(server, per_second)) as agent,
    ):
        before = agent.cpu_seconds()
        bodies = [
            body_of_spans(
                [span for n in range(start, start + REQUESTS_PER_BODY) for span in spans_of(n)]
            )
            for start in range(0, requests, REQUESTS_PER_BODY)
        ]
        asyncio.run(send(agent.urls["otlp_http"], bodies))
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while len(server.requests) < calls and time.monotonic() < deadline:
            time.sleep(0.1)
        cpu_seconds = agent.cpu_seconds() - before
        sent = [received.at for received in server.requests]
    steady = [at for at in sent if at >= sent[0] + SETTLING_SECONDS]
    rate = (len(steady) - 1) / (steady[-1] - steady[0])
    fastest = max(bisect_left(steady, at + WINDOW_SECONDS) - i for i, at in enumerate(steady))
    return Measured(rate, fastest / WINDOW_SECONDS, limit.violations, cpu_seconds / len(sent))


def spans_of(number: int) -> list[Span]:
    """Return a request with four claims, unlike those of any other, and 6 kB of context."""
    claims = [f"{fruit} cost {number} euros." for fruit in ("Apples", "Pears", "Plums", "Grapes")]
    page = f"{FILLER * 90} {claims[0]} {claims[1]}"
    return asked_now(number, f"What does fruit {number} cost?", " ".join(claims), page)


def config(server: OpenAIServer, per_second: int) -> dict[str, Any]:
    """Return the configuration: priced calls, a budget, and the limit as the model states it."""
    price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 4}
    return {
        "assembler": {"quiet_seconds": 0.2},
        "judge": {
            "engine": "openai",
            "concurrency": 32,
            "openai": {
                "base_url": server.base_url,
                "model": "limited",
                "api_key_env": None,
                "requests_per_minute": per_second * 60,
                "daily_budget_usd": 5,
                "prices": {"limited": price},
            },
        },
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-second", type=int, default=80)
    parser.add_argument("--requests", type=int, default=600)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = judge_all(Path(folder), arguments.per_second, arguments.requests)
    print(
        f"judging by a model: {found.per_second:.1f} calls/s of {arguments.per_second} stated, "
        f"{found.fastest:.1f} in the fastest {WINDOW_SECONDS:.0f} s, "
        f"{found.violations} over the limit, {found.cpu_seconds * 1000:.1f} ms CPU a call"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
