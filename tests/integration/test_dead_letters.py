"""Dead letters as a person meets them: listed without texts, sent again, gone once taken."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from rich.console import Console
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from collector import otlp, sending
from collector.config import KafkaJournalConfig
from collector.errors import TransientDependencyError
from collector.journal.kafka import KafkaJournal
from collector.model import LogRecord
from collector.ports import EntryKind, Position, Record
from sinks.dead_letter_topic import DeadLetterTopic
from sinks.dead_letters import DeadLetter, DeadLetterFile
from tests.bench.load import bodies
from tests.fakes.serving import Served
from tests.kafka_broker import Broker
from tests.processes import AgentProcess

MIB = 1024 * 1024
Letters = DeadLetterFile | DeadLetterTopic


def record(offset: int, kind: EntryKind, body: bytes) -> Record:
    return Record(Position(2, offset), kind, "", body, 1_764_400_000.0)


async def make_topics(kafka: KafkaJournalConfig) -> None:
    journal = await KafkaJournal.open(kafka, max_body_bytes=MIB)
    await journal.close()


@pytest.fixture(params=["sqlite", "kafka"])
def agent_and_letters(
    request: pytest.FixtureRequest, tmp_path: Path, broker: Broker
) -> Iterator[tuple[AgentProcess, Letters]]:
    """An agent with each kind of journal, and the dead letters that belong to it."""
    config: dict[str, Any] = {"assembler": {"quiet_seconds": 0.2}}
    if request.param == "sqlite":
        yield AgentProcess(tmp_path, config), DeadLetterFile(tmp_path / "data")
        return
    kafka = KafkaJournalConfig(
        brokers=[broker.address],
        topic_prefix=f"{uuid4()}.",
        partitions=1,
        session_seconds=broker.session_seconds,
    )
    config["journal"] = {"kafka": kafka.model_dump(mode="json")}
    asyncio.run(make_topics(kafka))
    with closing(DeadLetterTopic(kafka, None, max_body_bytes=MIB, bodies=True)) as topic:
        yield AgentProcess(tmp_path, config), topic


def test_letters_are_listed_and_sent_again_and_only_those_taken_are_forgotten(
    agent_and_letters: tuple[AgentProcess, Letters],
) -> None:
    agent, letters = agent_and_letters
    one, two = bodies(2, 1)
    spans = otlp.decode_traces(two, "").spans
    log = LogRecord(trace_id=spans[0].trace_id, body="said", attributes={}, resource={})
    whole = otlp.encode_trace(otlp.collect_trace(spans[0].trace_id, spans, [log]))
    thumb = {"trace_id": spans[0].trace_id, "kind": "thumbs_down", "comment": "secret words"}
    letters.append(record(1, "otlp_traces", one), "internal")
    letters.append(record(2, "trace", whole), "store_refused")
    letters.append(record(3, "signals", json.dumps(thumb).encode()), "internal")
    letters.append(record(4, "otlp_traces", b"\x00 poison"), "malformed")
    letters.append(record(5, "judge_task", b"?"), "malformed")

    listed = agent.run_command("dead-letters", "list")
    assert listed.returncode == 0
    assert "store_refused" in listed.stdout
    assert "2:4" in listed.stdout
    assert "secret" not in listed.stdout
    nobody = agent.run_command("dead-letters", "replay")
    assert nobody.returncode == 2
    assert "--endpoint" in nobody.stderr

    with agent:
        replayed = agent.run_command("dead-letters", "replay", "--json")
        deadline = time.monotonic() + 30
        while agent.totals()["requests"] < 2:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        signals = agent.report("signals")
    assert replayed.returncode == 1
    assert len(json.loads(replayed.stdout)["taken"]) == 3
    assert "400" in replayed.stderr
    assert "judge_task" in replayed.stderr
    assert "thumbs_down" in json.dumps(signals)
    left = json.loads(agent.run_command("dead-letters", "list", "--json").stdout)
    assert [(row["kind"], row["offset"]) for row in left] == [("otlp_traces", 4), ("judge_task", 5)]


async def test_letters_that_were_taken_are_forgotten_though_the_agent_goes_away(
    agent_and_letters: tuple[AgentProcess, Letters], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_PATIENCE_SECONDS", 1)
    _, letters = agent_and_letters
    for offset, body in enumerate(bodies(3, 1)):
        await asyncio.to_thread(letters.append, record(offset, "otlp_traces", body), "internal")
    answers = [200, 200]

    async def take(_: Request) -> Response:
        return Response(status_code=answers.pop() if answers else 503)

    with served(take) as agent, pytest.raises(TransientDependencyError, match="takes data"):
        await replay(letters, agent.root)
    assert offsets_of(await asyncio.to_thread(letters.read)) == [2]


async def test_a_letter_that_fails_again_while_others_are_sent_is_kept(
    agent_and_letters: tuple[AgentProcess, Letters],
) -> None:
    _, letters = agent_and_letters
    first, second = [record(n, "otlp_traces", body) for n, body in enumerate(bodies(2, 1))]
    for one in (first, second):
        await asyncio.to_thread(letters.append, one, "internal")

    def take(request: Request) -> Response:
        """While the second is sent the first is forgotten, and fails once more."""
        if next(calls) == 1:
            deadline = time.monotonic() + 30
            while 0 in offsets_of(letters.read()):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            letters.append(first, "internal")
        return Response()

    calls = count()
    with served(take) as agent:
        assert len((await replay(letters, agent.root))["taken"]) == 2
    assert offsets_of(await asyncio.to_thread(letters.read)) == [0]


def served(take: Callable[[Request], Response | Awaitable[Response]]) -> Served:
    """Serve something that stands in for an agent."""
    return Served(Starlette(routes=[Route("/v1/traces", take, methods=["POST"])]))


async def replay(letters: Letters, endpoint: str) -> dict[str, Any]:
    kept = await asyncio.to_thread(lambda: list(letters.read()))
    return await sending.send_letters(kept, endpoint, Console(file=StringIO()), letters.remove)


def offsets_of(letters: Iterable[DeadLetter]) -> list[int]:
    return [letter.record.position.offset for letter in letters]


def test_an_id_that_is_given_twice_is_sent_once(
    agent_and_letters: tuple[AgentProcess, Letters],
) -> None:
    agent, letters = agent_and_letters
    (body,) = bodies(1, 1)
    letters.append(record(1, "otlp_traces", body), "internal")
    (row,) = json.loads(agent.run_command("dead-letters", "list", "--json").stdout)

    def take(_: Request) -> Response:
        return Response()

    with served(take) as stand_in:
        ids = (row["id"], row["id"])
        replayed = agent.run_command(
            "dead-letters", "replay", *ids, "--endpoint", stand_in.root, "--json"
        )
    assert json.loads(replayed.stdout)["taken"] == [row["id"]]


def test_an_id_that_is_not_there_is_named(
    agent_and_letters: tuple[AgentProcess, Letters],
) -> None:
    agent, _ = agent_and_letters
    assert agent.run_command("dead-letters", "list").stdout == "no dead letters\n"
    unknown = agent.run_command("dead-letters", "replay", "0123456789ab")
    assert unknown.returncode == 2
    assert "0123456789ab" in unknown.stderr
