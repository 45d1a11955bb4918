"""A member of a group whose client does what a test says."""

from __future__ import annotations

import asyncio
import queue
import time
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from kafka.errors import KafkaConnectionError
from kafka.future import Future
from kafka.structs import TopicPartition

from collector.config import KafkaSecurityConfig
from collector.errors import TransientDependencyError
from collector.kafka.client import Brokers
from collector.kafka.consumer import KafkaConsumer
from collector.ports import Position, Record
from collector.timing import SystemClock

TOPIC = "t"


class Joined(NamedTuple):
    generation_id: int = 1


class ScriptedClient:
    """Gives out what is put into `script`: offsets of partition 0, or a call of the listener."""

    def __init__(self, listener: Any) -> None:
        self.listener = listener
        self.script: queue.Queue[Any] = queue.Queue()
        self.committed_offsets: list[int] = []
        self.closed = False
        self.partitions = {0}
        self.metadata_fails = False
        self.reads_on = 0

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[int]]:
        try:
            step = self.script.get(timeout=0.02)
        except queue.Empty:
            return {}
        if isinstance(step, list):
            self.reads_on = step[-1] + 1
            return {TopicPartition(TOPIC, 0): step}
        call = step.send  # a coroutine of the listener, driven as the client's I/O thread does
        try:
            future = call(None)
            while not future.is_done:
                time.sleep(0.01)
            call(None)
        except StopIteration:
            pass
        return {}

    def hear(self, what: str) -> None:
        call = getattr(self.listener, f"on_partitions_{what}")
        self.script.put(call({TopicPartition(TOPIC, 0)}))

    def partitions_for_topic(self, topic: str) -> set[int]:
        if self.metadata_fails:
            self.metadata_fails = False
            raise KafkaConnectionError
        return self.partitions

    def group_metadata(self) -> Joined:
        return Joined()

    def commit(self, offsets: dict[TopicPartition, Any], timeout_ms: int) -> None:
        self.committed_offsets += [offset.offset for offset in offsets.values()]

    def commit_async(self, _: dict[TopicPartition, Any]) -> Future:
        return Future().success(None)

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition(TOPIC, 0)}

    def position(self, _: TopicPartition, timeout_ms: int) -> int:
        return self.reads_on

    def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self.reads_on)

    def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    def committed(self, _: TopicPartition) -> int:
        return 1000

    def paused(self) -> set[TopicPartition]:
        return set()

    def close(self, autocommit: bool, timeout_ms: float) -> None:
        self.closed = True


class ScriptedBrokers(Brokers):
    def __init__(self) -> None:
        super().__init__(["nowhere:1"], KafkaSecurityConfig(), None)

    def consumer(self, *arguments: Any) -> ScriptedClient:
        self.client = ScriptedClient(arguments[-1])
        self.client.hear("assigned")
        return self.client


def read(offset: Any) -> Record:
    return Record(Position(0, offset), "signals", "", b"%d" % offset, 0.0)


async def joined(rebalance_seconds: float) -> tuple[KafkaConsumer, ScriptedClient]:
    brokers = ScriptedBrokers()
    consumer = await KafkaConsumer.join(
        brokers,
        TOPIC,
        "g",
        read,
        session_seconds=6,
        rebalance_seconds=rebalance_seconds,
        clock=SystemClock(),
    )
    return consumer, brokers.client


async def offsets(consumer: KafkaConsumer, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(5):
        while len(found) < count:
            found += [record.position.offset for record in await consumer.poll(10, 1)]
    return found


async def test_what_another_member_takes_over_is_finished_and_committed_first() -> None:
    consumer, client = await joined(5)

    async def finish(partitions: set[int]) -> None:
        await asyncio.sleep(0.1)
        await consumer.commit({0: 7})

    consumer.before_letting_go(finish)
    client.script.put([5, 6])
    assert await offsets(consumer, 2) == [5, 6]
    client.hear("revoked")
    client.hear("assigned")
    client.script.put([7])

    assert await offsets(consumer, 1) == [7]
    assert client.committed_offsets == [7]
    await consumer.close()
    assert client.closed


async def test_a_reader_that_is_late_commits_nothing_and_is_given_nothing_meanwhile() -> None:
    consumer, client = await joined(0.1)
    done = asyncio.Event()

    async def finish(partitions: set[int]) -> None:
        await done.wait()
        await consumer.commit({0: 7})

    consumer.before_letting_go(finish)
    client.script.put([5, 6])
    await offsets(consumer, 2)
    client.hear("revoked")
    client.hear("assigned")
    client.script.put([5, 6])

    assert await consumer.poll(10, 0.5) == []
    done.set()
    assert await offsets(consumer, 2) == [5, 6], "the new life of the partition"
    assert client.committed_offsets == []
    await consumer.commit({0: 7})
    assert client.committed_offsets == [7]
    await consumer.close()


async def test_what_is_lost_to_another_member_is_forgotten_without_a_commit() -> None:
    consumer, client = await joined(5)
    forgotten: list[set[int]] = []

    async def finish(partitions: set[int]) -> None:
        forgotten.append(partitions)
        await consumer.commit({0: 6})

    consumer.before_letting_go(finish)
    client.script.put([5])
    await offsets(consumer, 1)
    client.hear("lost")
    client.hear("assigned")
    client.script.put([9])

    assert await offsets(consumer, 1) == [9]
    assert forgotten == [{0}]
    assert client.committed_offsets == []
    await consumer.close()


async def test_brokers_that_count_anew_are_read_anew() -> None:
    consumer, client = await joined(5)
    forgotten: list[set[int]] = []

    async def finish(partitions: set[int]) -> None:
        forgotten.append(partitions)

    consumer.before_letting_go(finish)
    client.script.put([5, 6])
    await offsets(consumer, 2)
    await consumer.commit({0: 7})
    client.script.put([0, 1])

    assert await offsets(consumer, 2) == [0, 1]
    assert forgotten == [{0}]
    await consumer.commit({0: 2})
    assert client.committed_offsets == [7, 2]
    await consumer.close()


async def test_a_topic_that_ends_before_what_was_committed_in_it_is_committed_anew() -> None:
    consumer, client = await joined(5)
    await consumer.lag()
    client.script.put([0, 1])
    await offsets(consumer, 2)
    assert (await consumer.lag())[0] == 2
    await consumer.commit({0: 2})
    assert client.committed_offsets == [2]
    assert await consumer.lag() == (0, 0.0)
    await consumer.close()


async def test_only_what_was_polled_can_be_committed_and_never_back() -> None:
    consumer, client = await joined(5)
    client.script.put([5, 6])
    await offsets(consumer, 2)
    with pytest.raises(ValueError, match="polled"):
        await consumer.commit({0: 8})
    await consumer.commit({0: 7})
    await consumer.commit({0: 6})
    assert client.committed_offsets == [7]
    await consumer.close()


async def test_a_share_counts_the_partitions_that_a_topic_gained_later() -> None:
    consumer, client = await joined(rebalance_seconds=1)
    async with asyncio.timeout(5):
        while consumer.share != 1.0:
            await consumer.poll(1, 0.05)
        client.partitions = {0, 1, 2, 3}
        while consumer.share != 0.25:
            await consumer.poll(1, 0.05)
    await consumer.close()


async def test_no_record_is_lost_where_brokers_cannot_tell_of_a_topic() -> None:
    consumer, client = await joined(rebalance_seconds=1)
    client.metadata_fails = True
    client.script.put([0, 1])
    found: list[int] = []
    async with asyncio.timeout(10):
        while len(found) < 2:
            with suppress(TransientDependencyError):
                found += [record.position.offset for record in await consumer.poll(10, 0.1)]
            await asyncio.sleep(0.05)
    assert found == [0, 1]
    await consumer.close()
