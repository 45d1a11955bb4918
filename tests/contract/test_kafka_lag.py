"""What a consumer says of its lag where offsets have gaps or do not go on as before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka import KafkaConsumer as Client
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.config import KafkaSecurityConfig
from collector.journal.kafka import record_of
from collector.kafka.client import Brokers
from collector.kafka.consumer import KafkaConsumer
from collector.ports import Record
from collector.timing import SystemClock
from tests.kafka_broker import Broker

pytestmark = pytest.mark.apache_kafka


@pytest.fixture
def place(broker: Broker) -> TopicPartition:
    """The one partition of a topic."""
    topic = str(uuid4())
    brokers(broker).make_topics([topic], partitions=1, replication=1, settings={})
    return TopicPartition(topic, 0)


def brokers(broker: Broker) -> Brokers:
    return Brokers([broker.address], KafkaSecurityConfig(), None)


def fill(
    broker: Broker, place: TopicPartition, count: int, timestamp_ms: int | None = None
) -> None:
    producer = KafkaProducer(bootstrap_servers=[broker.address])
    for _ in range(count):
        producer.send(place.topic, b"x", timestamp_ms=timestamp_ms)
    producer.close()


@asynccontextmanager
async def joined(broker: Broker, place: TopicPartition) -> AsyncIterator[KafkaConsumer]:
    consumer = await KafkaConsumer.join(
        brokers(broker),
        place.topic,
        "g",
        record_of,
        session_seconds=broker.session_seconds,
        rebalance_seconds=10,
        clock=SystemClock(),
    )
    yield consumer
    await consumer.close()


async def read(consumer: KafkaConsumer, count: int) -> list[Record]:
    found: list[Record] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await consumer.poll(count, 0.1)
    return found


async def until_nothing_waits(consumer: KafkaConsumer) -> None:
    async with asyncio.timeout(30):
        while await consumer.lag() != (0, 0.0):
            await consumer.poll(1, 0.1)


async def test_the_mark_at_the_end_of_a_transaction_is_nothing_that_waits(
    broker: Broker, place: TopicPartition
) -> None:
    def fill_in_one_transaction() -> None:
        producer = KafkaProducer(bootstrap_servers=[broker.address], transactional_id=place.topic)
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(3):
            producer.send(place.topic, b"x")
        producer.commit_transaction()
        producer.close()

    await asyncio.to_thread(fill_in_one_transaction)
    async with joined(broker, place) as consumer:
        await read(consumer, 3)
        await consumer.commit({0: 3})
        await until_nothing_waits(consumer)


async def test_records_deleted_before_they_were_read_do_not_wait(
    broker: Broker, place: TopicPartition
) -> None:
    await asyncio.to_thread(fill, broker, place, 10)
    async with joined(broker, place) as consumer:
        await read(consumer, 10)
        await consumer.commit({0: 3})
    admin = KafkaAdminClient(bootstrap_servers=[broker.address])
    admin.delete_records({place: 10})
    admin.close()
    async with joined(broker, place) as consumer:
        await until_nothing_waits(consumer)


async def test_a_topic_made_anew_is_counted_and_committed_from_its_start(
    broker: Broker, place: TopicPartition
) -> None:
    before = Client(bootstrap_servers=[broker.address], group_id="g", enable_auto_commit=False)
    before.commit({place: OffsetAndMetadata(1000, "", -1)})
    await asyncio.to_thread(fill, broker, place, 5)
    async with joined(broker, place) as consumer:
        await consumer.lag()
        await read(consumer, 5)
        assert (await consumer.lag())[0] == 5
        await consumer.commit({0: 5})
        await until_nothing_waits(consumer)
    assert before.committed(place) == 5
    before.close()


async def test_a_record_without_a_time_is_as_old_as_it_is_here(
    broker: Broker, place: TopicPartition
) -> None:
    await asyncio.to_thread(fill, broker, place, 1, 0)
    async with joined(broker, place) as consumer:
        await read(consumer, 1)
        records, seconds = await consumer.lag()
    assert records == 1
    assert seconds < 86_400
