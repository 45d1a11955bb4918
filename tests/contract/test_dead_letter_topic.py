"""Dead letters on a real broker: durable, shared, bounded, and gone once they are taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from collector.config import KafkaJournalConfig, KafkaSecurityConfig
from collector.errors import TransientDependencyError
from collector.journal.kafka import KafkaJournal
from collector.kafka.client import Brokers
from collector.ports import Position, Record
from sinks.dead_letter_topic import DeadLetterTopic
from tests.kafka_broker import Broker, SmallBroker, written_raw

MIB = 1024 * 1024
Open = Callable[..., Awaitable[DeadLetterTopic]]


@pytest.fixture
def prefix() -> str:
    return f"{uuid4()}."


@pytest.fixture
async def open_topic(broker: Broker, prefix: str) -> AsyncIterator[Open]:
    opened: list[DeadLetterTopic] = []

    async def open_it(to: Broker = broker, **options: Any) -> DeadLetterTopic:
        """Open the topic that the journal of an agent makes."""
        given = {"max_body_bytes": MIB, "bodies": True} | options
        config = KafkaJournalConfig(brokers=[to.address], topic_prefix=prefix, partitions=1)
        journal = await KafkaJournal.open(config, max_body_bytes=given["max_body_bytes"])
        await journal.close()
        opened.append(DeadLetterTopic(config, None, **given))
        return opened[-1]

    yield open_it
    for topic in opened:
        topic.close()


def record(offset: int, body: bytes = b"\x00\xff not text") -> Record:
    return Record(Position(3, offset), "otlp_traces", "0af7", body, 1762214400.5)


async def test_what_one_agent_sets_aside_every_agent_reads_in_order(open_topic: Open) -> None:
    agent, another = await open_topic(), await open_topic()
    for offset in range(3):
        agent.append(record(offset), "malformed")
    another.append(record(3), "too_large")

    found = list((await open_topic()).read())

    assert [letter.record for letter in found] == [record(offset) for offset in range(4)]
    assert [letter.reason for letter in found] == ["malformed"] * 3 + ["too_large"]
    assert not any(letter.body_lost for letter in found)


async def test_a_record_set_aside_again_after_a_crash_is_one_letter(open_topic: Open) -> None:
    topic = await open_topic()
    topic.append(record(1), "malformed")
    (await open_topic()).append(record(1), "malformed")
    topic.append(record(1, b"what lies there in another topic"), "malformed")
    assert len(list(topic.read())) == 2


async def test_letters_that_were_taken_are_gone_until_they_fail_again(open_topic: Open) -> None:
    topic = await open_topic()
    for offset in range(3):
        topic.append(record(offset), "internal")
    ids = {letter.record.position.offset: letter.letter_id for letter in topic.read()}

    (await open_topic()).remove([ids[0], ids[2]])
    assert [letter.letter_id for letter in topic.read()] == [ids[1]]
    topic.append(record(0), "internal")
    assert {letter.letter_id for letter in topic.read()} == {ids[0], ids[1]}


async def test_a_body_larger_than_the_topic_takes_leaves_its_trace_without_the_body(
    open_topic: Open,
) -> None:
    topic = await open_topic(max_body_bytes=1024)
    topic.append(record(1, bytes(10 * MIB)), "too_large")
    (letter,) = topic.read()
    assert (letter.record.position.offset, letter.reason) == (1, "too_large")
    assert (letter.record.body, letter.body_lost) == (b"", True)


async def test_a_key_larger_than_the_topic_takes_is_cut(open_topic: Open) -> None:
    topic = await open_topic()
    topic.append(record(1)._replace(key="k" * 5 * MIB), "malformed")
    (letter,) = topic.read()
    assert (letter.record.position.offset, letter.body_lost) == (1, True)
    assert letter.record.key == "k" * 1000


async def test_what_others_wrote_into_the_topic_is_left_out(
    open_topic: Open, broker: Broker, prefix: str
) -> None:
    topic = await open_topic()
    topic.append(record(1), "malformed")
    foreign: list[list[tuple[str, bytes | None]]] = [
        [],
        [("reason", None)],
        [("kind", b"\xff")],
        [("set_aside_at", b"noon"), ("offset", b"one")],
    ]
    with written_raw(broker, f"{prefix}dead-letters") as write:
        for headers in foreign:
            write(headers)
    assert [letter.record for letter in topic.read()] == [record(1)]


async def test_where_texts_may_not_be_kept_only_place_and_reason_are(
    open_topic: Open, broker: Broker, prefix: str
) -> None:
    topic = await open_topic(bodies=False)
    topic.append(record(1, b"what a user wrote"), "malformed")
    (letter,) = topic.read()
    assert (letter.reason, letter.record.body, letter.body_lost) == ("malformed", b"", True)
    brokers = Brokers([broker.address], KafkaSecurityConfig(), None)
    (message,) = brokers.all_in(f"{prefix}dead-letters")
    assert b"user" not in b"".join([message.value, *(text for _, text in message.headers)])


def test_without_a_topic_there_is_nothing_to_read(broker: Broker, prefix: str) -> None:
    config = KafkaJournalConfig(brokers=[broker.address], topic_prefix=prefix)
    topic = DeadLetterTopic(config, None, max_body_bytes=1024, bodies=True)
    assert list(topic.read()) == []


async def test_while_the_broker_is_away_nothing_counts_as_set_aside(
    open_topic: Open, tmp_path: Path
) -> None:
    with SmallBroker(tmp_path / "broker") as alone:
        topic = await open_topic(alone)
        topic.append(record(1), "malformed")
        alone.kill()
        with pytest.raises(TransientDependencyError, match="dead letters: not written"):
            topic.append(record(2), "malformed")
