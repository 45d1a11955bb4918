"""Members of a group whose topic comes later, or is given more partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from collector.config import KafkaSecurityConfig
from collector.journal.kafka import record_of
from collector.kafka import client, consumer
from collector.kafka.client import Brokers
from collector.kafka.consumer import KafkaConsumer
from collector.timing import SystemClock
from tests.kafka_broker import Broker

# The small broker makes a topic as soon as somebody asks for it.
pytestmark = pytest.mark.apache_kafka


@pytest.fixture(autouse=True)
def known_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_METADATA_MS", 1000)
    # So that polls end at each moment of a rebalance.
    monkeypatch.setattr(consumer, "_POLL_MS", 2)


def make(broker: Broker, topic: str, partitions: int) -> None:
    brokers = Brokers([broker.address], KafkaSecurityConfig(), None)
    brokers.make_topics([topic], partitions=partitions, replication=1, settings={})


@asynccontextmanager
async def group(broker: Broker, topic: str, members: int) -> AsyncIterator[list[KafkaConsumer]]:
    async with AsyncExitStack() as stack:
        joined = []
        for _ in range(members):
            member = await KafkaConsumer.join(
                Brokers([broker.address], KafkaSecurityConfig(), None),
                topic,
                "g",
                record_of,
                session_seconds=broker.session_seconds,
                rebalance_seconds=10,
                clock=SystemClock(),
            )
            stack.push_async_callback(member.close)
            joined.append(member)
        yield joined


async def until_each_has(members: list[KafkaConsumer], partitions: int) -> None:
    async with asyncio.timeout(60):
        while [len(member.owned) for member in members] != [partitions] * len(members):
            await members[0].poll(0, 0.1)


async def read_all(broker: Broker, topic: str, members: list[KafkaConsumer], parts: int) -> None:
    """Write to every partition, and read each record once, whoever reads it."""

    def write() -> None:
        producer = KafkaProducer(bootstrap_servers=[broker.address])
        for part in range(parts):
            for n in range(10):
                producer.send(topic, b"%d/%d" % (part, n), partition=part)
        producer.close()

    await asyncio.to_thread(write)
    wanted = sorted(b"%d/%d" % (part, n) for part in range(parts) for n in range(10))
    found: list[bytes] = []
    async with asyncio.timeout(30):
        while len(found) < len(wanted):
            for member in members:
                found += [record.body for record in await member.poll(100, 0.1)]
    assert sorted(found) == wanted


async def test_a_topic_that_comes_later_is_shared_out_and_read(broker: Broker) -> None:
    topic = str(uuid4())
    async with group(broker, topic, 3) as members:
        await asyncio.to_thread(make, broker, topic, 6)
        await until_each_has(members, 2)
        await asyncio.sleep(2 * broker.session_seconds)
        await until_each_has(members, 2)
        await read_all(broker, topic, members, 6)


async def test_partitions_added_to_a_topic_are_shared_out_and_read(broker: Broker) -> None:
    topic = str(uuid4())
    await asyncio.to_thread(make, broker, topic, 3)

    def grow() -> None:
        admin = KafkaAdminClient(bootstrap_servers=[broker.address])
        admin.create_partitions({topic: 6})
        admin.close()

    async with group(broker, topic, 3) as members:
        await until_each_has(members, 1)
        await asyncio.to_thread(grow)
        await until_each_has(members, 2)
        await asyncio.sleep(2 * broker.session_seconds)
        await until_each_has(members, 2)
        await read_all(broker, topic, members, 6)
