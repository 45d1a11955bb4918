"""Dead letters as a person meets them: listed without texts, sent again, gone once taken."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from collector import otlp
from collector.config import KafkaJournalConfig
from collector.journal.kafka import KafkaJournal
from collector.model import LogRecord
from collector.ports import DeadLetters, EntryKind, Position, Record
from sinks.dead_letter_topic import DeadLetterTopic
from sinks.dead_letters import DeadLetterFile
from tests.bench.load import bodies
from tests.kafka_broker import Broker
from tests.processes import AgentProcess

MIB = 1024 * 1024


def record(offset: int, kind: EntryKind, body: bytes) -> Record:
    return Record(Position(2, offset), kind, "", body, 1_764_400_000.0)


async def make_topics(kafka: KafkaJournalConfig) -> None:
    journal = await KafkaJournal.open(kafka, max_body_bytes=MIB)
    await journal.close()


@pytest.fixture(params=["sqlite", "kafka"])
def agent_and_letters(
    request: pytest.FixtureRequest, tmp_path: Path, broker: Broker
) -> Iterator[tuple[AgentProcess, DeadLetters]]:
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
    agent_and_letters: tuple[AgentProcess, DeadLetters],
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


def test_an_id_that_is_not_there_is_named(
    agent_and_letters: tuple[AgentProcess, DeadLetters],
) -> None:
    agent, _ = agent_and_letters
    assert agent.run_command("dead-letters", "list").stdout == "no dead letters\n"
    unknown = agent.run_command("dead-letters", "replay", "0123456789ab")
    assert unknown.returncode == 2
    assert "0123456789ab" in unknown.stderr
