"""500 judgements against a server with every fault, killed half-way: none lost, none wrong.

The server states an exact limit of calls in any second and counts what exceeds it. Some faults hit
whoever calls at the time; others hit the same answers again and again, which must end as failed
with that cause. All other answers must get the score that is right for them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from collector.model import Span
from collector.trace_files.encode import body_of_spans
from tests.bench.end_to_end import send
from tests.fakes import openai_server as fake
from tests.fakes.openai_server import Behaviour, Body, OpenAIServer, StatedLimit, data_of
from tests.fakes.requests import asked_now
from tests.integration.test_model_judge import stored_judgements
from tests.processes import AgentProcess

TASKS = 500
CALLS_PER_SECOND = 80
FILLER = "Nothing of interest is written on this page, whatever you may ask. "

# By the word in the question: what the server does, and how the judgement must end.
LASTING: dict[str, tuple[Behaviour, str]] = {
    "refusing": (fake.refusal(), "refused"),
    "filtered": (fake.content_filter(), "content_filter"),
    "forbidden": (fake.content_filter_error(), "content_filter"),
    "shapeless": (fake.schema_violation(), "unparseable"),
    "wordy": (fake.wrong_json(), "unparseable"),
    "choiceless": (fake.no_choices(), "empty_reply"),
    "clipped": (fake.cut_reply(), "truncated_reply"),
    "endless": (fake.context_length_exceeded(), "context_too_long"),
}
# What hits whoever calls then, by seconds since the first call.
STORMS: list[tuple[float, float, Behaviour]] = [
    (0.8, 1.6, fake.rate_limited("0.4")),
    (2.4, 3.0, fake.server_error(503)),
    (4.0, 4.4, fake.connection_drop()),
    (5.4, 5.8, fake.slow(3)),
    (8.5, 9.0, fake.rate_limited(milliseconds="300")),
]


class FaultyModel:
    """Judges honestly, apart from its faults."""

    def __init__(self) -> None:
        self.first_call: float | None = None

    async def __call__(self, body: Body) -> Any:
        now = time.monotonic()
        self.first_call = self.first_call or now
        for begin, end, storm in STORMS:
            if begin <= now - self.first_call < end:
                return await storm(body)
        word = data_of(body)["question"].split()[1]
        if word in LASTING:
            return await LASTING[word][0](body)
        if word == "crowded" and sum(len(m["content"]) for m in body["messages"]) > 9_000:
            return await fake.context_length_exceeded()(body)
        return await fake.good()(body)


def kind_of(number: int) -> str:
    kinds = [*LASTING, "crowded", "slight"]
    return kinds[number // 10 % len(kinds)] if number % 10 == 0 else "plain"


def supported_of(number: int) -> int:
    """How many of the four claims of an answer its document holds."""
    return number % 5


def spans_of(number: int) -> list[Span]:
    """Return a request with four claims, none like those of another."""
    question = f"How {kind_of(number)} is product {number}?"
    claims = [f"{fruit} cost {number}." for fruit in ("Apples", "Pears", "Plums", "Grapes")]
    held = claims[: supported_of(number)]
    filler = FILLER * (250 if kind_of(number) == "crowded" else 1)
    text = " ".join([filler, *held])
    return asked_now(number, question, " ".join(claims), text)


def config(server: OpenAIServer) -> dict[str, Any]:
    return {
        "assembler": {"quiet_seconds": 0.2},
        "judge": {
            "engine": "openai",
            "concurrency": 32,
            "openai": {
                "base_url": server.base_url,
                "model": "faulty",
                "api_key_env": None,
                "requests_per_minute": CALLS_PER_SECOND * 60,
                "max_retries": 6,
                "timeout_seconds": 2,
                "deadline_seconds": 60,
                "daily_budget_usd": 5,
                "prices": {"faulty": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 4}},
            },
        },
    }


@pytest.mark.timeout(240)
def test_every_judgement_ends_right_through_all_faults_and_a_kill(tmp_path: Path) -> None:
    limit = StatedLimit(CALLS_PER_SECOND, FaultyModel())
    with OpenAIServer(default=limit) as server:
        agent = AgentProcess(tmp_path, config(server))
        with agent:
            payloads = [
                body_of_spans([span for n in range(start, start + 50) for span in spans_of(n)])
                for start in range(0, TASKS, 50)
            ]
            asyncio.run(send(agent.urls["otlp_http"], payloads))
            wait_until(lambda: len(server.requests) > TASKS)
            agent.kill()
        with agent:
            wait_until(lambda: agent.totals()["requests"] == TASKS)
            wait_until(lambda: agent.totals()["waiting"] == 0)
            totals = agent.totals()
    assert limit.violations == 0
    assert totals["accounting_ok"]
    assert totals["eligible"] == TASKS

    rows = asyncio.run(stored_judgements(agent.data_dir))
    assert Counter(row["trace_id"] for row in rows) == {f"{n + 1:032x}": 1 for n in range(TASKS)}
    for row in rows:
        number = int(row["trace_id"], 16) - 1
        kind = kind_of(number)
        if kind in LASTING:
            ended = (row["status"], row["score"], row["reason"])
            assert ended == ("failed", None, LASTING[kind][1]), kind
        else:
            assert (row["status"], row["reason"]) == ("judged", None), kind
            assert row["score"] == supported_of(number) / 4


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(1)
