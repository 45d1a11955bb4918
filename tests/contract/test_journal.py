"""What every journal promises. Each implementation is a `Place` where journals can be opened.

To add one: write its `Place` and add it to `PLACES`; to `LOCAL` if what is appended can be polled
at once, and to `BOUNDED` if it refuses appends at a size of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest

from collector.config import JournalConfig, KafkaJournalConfig
from collector.errors import Overloaded, TransientDependencyError
from collector.journal.kafka import KafkaJournal
from collector.journal.sqlite import SqliteJournal
from collector.ports import SIGNALS, TELEMETRY, Consumer, Entry, Journal
from tests.fakes.journal import MemoryJournal, MemoryLog
from tests.kafka_broker import Broker

MIB = 1024 * 1024


class HandClock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


class Place(Protocol):
    """Somewhere a journal lives; opening it again after closing finds what was there."""

    clock: HandClock

    async def open(self) -> Journal: ...
    async def close(self) -> None: ...


class SqlitePlace:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.db"
        self.clock = HandClock()
        self.opened: list[Journal] = []

    async def open(self) -> Journal:
        config = JournalConfig(max_bytes=16 * MIB, min_free_disk_bytes=0)
        journal = await SqliteJournal.open(self.path, config, clock=self.clock)
        self.opened.append(journal)
        return journal

    async def close(self) -> None:
        for journal in self.opened:
            await journal.close()


class MemoryPlace:
    def __init__(self) -> None:
        self.log = MemoryLog()
        self.clock = HandClock()

    async def open(self) -> Journal:
        return MemoryJournal(self.log, max_bytes=16 * MIB, clock=self.clock)

    async def close(self) -> None:
        """Nothing to release."""


class KafkaPlace:
    """Topics of their own on a broker, with one partition: so all records are in order."""

    def __init__(self, broker: Broker) -> None:
        self.clock = HandClock()
        self.clock.time = datetime.now(UTC).replace(microsecond=0)
        self.config = KafkaJournalConfig(
            brokers=[broker.address],
            topic_prefix=f"{uuid4()}.",
            partitions=1,
            session_seconds=broker.session_seconds,
        )
        self.opened: list[Journal] = []

    async def open(self) -> Journal:
        journal = await KafkaJournal.open(self.config, max_body_bytes=16 * MIB, clock=self.clock)
        self.opened.append(journal)
        return journal

    async def close(self) -> None:
        for journal in self.opened:
            await journal.close()


def sqlite(request: pytest.FixtureRequest) -> Place:
    return SqlitePlace(request.getfixturevalue("tmp_path"))


def memory(_: pytest.FixtureRequest) -> Place:
    return MemoryPlace()


def kafka(request: pytest.FixtureRequest) -> Place:
    return KafkaPlace(request.getfixturevalue("broker"))


LOCAL: list[Callable[[pytest.FixtureRequest], Place]] = [sqlite, memory]
BOUNDED = LOCAL
PLACES = [*LOCAL, kafka]


@pytest.fixture(params=PLACES)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    place = request.param(request)
    yield place
    await place.close()


@pytest.fixture
async def journal(place: Place) -> Journal:
    return await place.open()


def traces(*bodies: bytes, key: str = "") -> list[Entry]:
    return [Entry(TELEMETRY, "otlp_traces", key, body) for body in bodies]


async def read(consumer: Consumer, count: int) -> list[bytes]:
    """Read until `count` records came; fails by its time-out where they do not."""
    bodies: list[bytes] = []
    async with asyncio.timeout(10):
        while len(bodies) < count:
            bodies += [record.body for record in await consumer.poll(count - len(bodies), 1)]
    return bodies


async def commit_all(consumer: Consumer, count: int) -> None:
    """Read `count` records and commit them."""
    done = 0
    async with asyncio.timeout(10):
        while done < count:
            for record in await consumer.poll(count, 1):
                done += 1
                await consumer.commit({record.position.partition: record.position.offset + 1})


async def test_a_record_comes_back_as_it_was_appended(journal: Journal, place: Place) -> None:
    body = bytes(range(256)) * 300
    await journal.append([Entry(TELEMETRY, "otlp_logs", "0af7651916cd43dd", body)])

    (record,) = await (await journal.consumer(TELEMETRY, "process")).poll(10, 5)

    assert record.kind == "otlp_logs"
    assert record.key == "0af7651916cd43dd"
    assert record.body == body
    assert record.appended_at == pytest.approx(place.clock.now().timestamp(), abs=60)


async def test_records_come_back_in_the_order_they_were_appended(journal: Journal) -> None:
    await journal.append(traces(b"1", b"2"))
    await journal.append(traces(b"3"))
    consumer = await journal.consumer(TELEMETRY, "process")

    records = await consumer.poll(10, 5)

    assert [record.body for record in records] == [b"1", b"2", b"3"]
    offsets = [record.position.offset for record in records]
    assert offsets == sorted(set(offsets))


async def test_topics_do_not_mix(journal: Journal) -> None:
    await journal.append(
        [Entry(TELEMETRY, "otlp_traces", "", b"span"), Entry(SIGNALS, "signals", "", b"thumb")]
    )

    assert await read(await journal.consumer(SIGNALS, "process"), 1) == [b"thumb"]
    assert await read(await journal.consumer(TELEMETRY, "process"), 1) == [b"span"]


async def test_an_empty_append_succeeds_and_adds_nothing(journal: Journal) -> None:
    await journal.append([])
    consumer = await journal.consumer(TELEMETRY, "process")
    assert await consumer.poll(10, 0.05) == []


async def test_a_poll_returns_no_more_than_it_was_asked_for(journal: Journal) -> None:
    await journal.append(traces(*[b"%d" % number for number in range(7)]))
    consumer = await journal.consumer(TELEMETRY, "process")

    sizes = [len(await consumer.poll(3, 1)) for _ in range(3)]

    assert max(sizes) <= 3
    assert sum(sizes) == 7


async def test_each_record_is_given_to_a_consumer_once(journal: Journal) -> None:
    await journal.append(traces(b"1"))
    consumer = await journal.consumer(TELEMETRY, "process")
    assert await read(consumer, 1) == [b"1"]

    assert await consumer.poll(10, 0.05) == []


@pytest.mark.parametrize("place", LOCAL, indirect=True)
async def test_a_poll_without_waiting_time_still_returns_what_is_there(journal: Journal) -> None:
    consumer = await journal.consumer(TELEMETRY, "process")
    await journal.append(traces(b"1"))

    assert [record.body for record in await consumer.poll(10, 0)] == [b"1"]
    assert await consumer.poll(10, 0) == []


async def test_a_waiting_poll_ends_as_soon_as_something_is_appended(journal: Journal) -> None:
    consumer = await journal.consumer(TELEMETRY, "process")
    delays = []
    for _ in range(5):
        poll = asyncio.create_task(consumer.poll(10, 30))
        await asyncio.sleep(0.02)
        await journal.append(traces(b"news"))
        acknowledged = time.perf_counter()
        assert len(await poll) == 1
        delays.append(time.perf_counter() - acknowledged)

    assert min(delays) < 0.5


async def test_what_was_not_committed_comes_again_after_a_restart(
    journal: Journal, place: Place
) -> None:
    await journal.append(traces(b"1", b"2", b"3"))
    consumer = await journal.consumer(TELEMETRY, "process")
    first, _, _ = await consumer.poll(10, 5)
    await consumer.commit({first.position.partition: first.position.offset + 1})
    await journal.close()

    again = await (await place.open()).consumer(TELEMETRY, "process")

    assert await read(again, 2) == [b"2", b"3"]


async def test_offsets_are_not_used_again_when_all_was_read_and_the_journal_restarted(
    journal: Journal, place: Place
) -> None:
    await journal.append(traces(b"1", b"2"))
    consumer = await journal.consumer(TELEMETRY, "process")
    records = await consumer.poll(10, 5)
    await consumer.commit({0: records[-1].position.offset + 1})
    await journal.close()

    journal = await place.open()
    await journal.append(traces(b"3"))
    (record,) = await (await journal.consumer(TELEMETRY, "process")).poll(10, 5)

    assert record.body == b"3"
    assert record.position.offset > records[-1].position.offset


async def test_a_position_never_goes_back(journal: Journal, place: Place) -> None:
    await journal.append(traces(b"1", b"2", b"3"))
    consumer = await journal.consumer(TELEMETRY, "process")
    one, two, _ = await consumer.poll(10, 5)
    await consumer.commit({0: two.position.offset + 1})
    await consumer.commit({0: one.position.offset + 1})
    await journal.close()

    again = await (await place.open()).consumer(TELEMETRY, "process")

    assert await read(again, 1) == [b"3"]


async def test_what_was_not_polled_cannot_be_committed(journal: Journal) -> None:
    await journal.append(traces(b"1"))
    consumer = await journal.consumer(TELEMETRY, "process")

    with pytest.raises(ValueError, match="polled"):
        await consumer.commit({0: 1000})


async def test_groups_read_independently(journal: Journal) -> None:
    slow = await journal.consumer(TELEMETRY, "slow")
    quick = await journal.consumer(TELEMETRY, "quick")
    await journal.append(traces(b"1", b"2"))
    await commit_all(quick, 2)

    assert await read(slow, 2) == [b"1", b"2"]


async def test_a_late_group_starts_at_the_oldest_record_still_there(journal: Journal) -> None:
    await journal.append(traces(b"1", b"2"))
    consumer = await journal.consumer(TELEMETRY, "process")
    assert await read(consumer, 2) == [b"1", b"2"]

    late = await journal.consumer(TELEMETRY, "late")

    assert await read(late, 2) == [b"1", b"2"]


async def test_one_member_of_a_group_reads_and_the_next_goes_on_when_it_leaves(
    journal: Journal,
) -> None:
    first = await journal.consumer(TELEMETRY, "process")
    second = await journal.consumer(TELEMETRY, "process")
    await journal.append(traces(b"1", b"2"))
    one, _ = await first.poll(10, 5)
    await first.commit({0: one.position.offset + 1})
    assert await second.poll(10, 0.05) == []

    await first.close()

    assert await read(second, 1) == [b"2"]


async def test_appends_of_many_producers_all_arrive_once_each_in_its_own_order(
    journal: Journal,
) -> None:
    async def produce(producer: int) -> None:
        for number in range(20):
            await journal.append(traces(b"%d:%d" % (producer, number)))

    consumer = await journal.consumer(TELEMETRY, "process")
    _, bodies = await asyncio.gather(
        asyncio.gather(*(produce(producer) for producer in range(30))), read(consumer, 600)
    )

    for producer in range(30):
        own = [body for body in bodies if body.startswith(b"%d:" % producer)]
        assert own == [b"%d:%d" % (producer, number) for number in range(20)]
    assert await consumer.poll(10, 0.05) == []


async def test_lag_counts_what_is_not_committed_and_how_old_it_is(
    journal: Journal, place: Place
) -> None:
    consumer = await journal.consumer(TELEMETRY, "process")
    assert await consumer.lag() == (0, 0.0)
    await journal.append(traces(b"1"))
    place.clock.time += timedelta(seconds=30)
    await journal.append(traces(b"2"))
    place.clock.time += timedelta(seconds=12)

    assert await consumer.lag() == (2, 42.0)
    one, two = await consumer.poll(10, 5)
    assert await consumer.lag() == (2, 42.0)
    await consumer.commit({0: one.position.offset + 1})
    assert await consumer.lag() == (1, 12.0)
    await consumer.commit({0: two.position.offset + 1})
    assert await consumer.lag() == (0, 0.0)


async def test_closing_ends_a_waiting_poll_and_refuses_what_comes_later(journal: Journal) -> None:
    consumer = await journal.consumer(TELEMETRY, "process")
    poll = asyncio.create_task(consumer.poll(10, 30))
    await asyncio.sleep(0.02)

    await journal.close()
    await journal.close()
    await consumer.close()

    assert await asyncio.wait_for(poll, 1) == []
    with pytest.raises(TransientDependencyError):
        await journal.append(traces(b"late"))
    with pytest.raises(TransientDependencyError):
        await consumer.poll(1, 0)


async def test_a_poll_that_is_cancelled_loses_nothing(journal: Journal) -> None:
    consumer = await journal.consumer(TELEMETRY, "process")
    poll = asyncio.create_task(consumer.poll(10, 30))
    await asyncio.sleep(0.01)
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)

    await journal.append(traces(b"1"))

    assert await read(consumer, 1) == [b"1"]


@pytest.mark.parametrize("place", BOUNDED, indirect=True)
async def test_a_full_journal_refuses_and_takes_again_once_records_are_done(
    journal: Journal,
) -> None:
    consumer = await journal.consumer(TELEMETRY, "process")
    refused, appended = None, 0
    while refused is None and appended < 40:
        try:
            await journal.append(traces(bytes(MIB)))
            appended += 1
        except Overloaded as err:
            refused = err
    assert refused is not None
    assert refused.reason == "journal"
    assert refused.retry_after_seconds > 0
    assert 10 <= appended <= 16

    await commit_all(consumer, appended)

    async with asyncio.timeout(5):
        while True:
            try:
                await journal.append(traces(b"after"))
                break
            except Overloaded:
                await asyncio.sleep(0.05)
    assert await read(consumer, 1) == [b"after"]
