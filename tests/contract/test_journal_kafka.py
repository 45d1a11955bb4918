"""What the journal on Kafka promises beyond the port: keys, bounds, brokers that go and come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import otlp
from collector.config import KafkaJournalConfig
from collector.errors import Overloaded, TransientDependencyError
from collector.journal.kafka import PENDING_BYTES, KafkaJournal
from collector.kafka import consumer as kafka_consumer
from collector.ports import SIGNALS, TELEMETRY, Consumer, Entry, Record
from collector.telemetry import Metrics
from tests.bench.load import bodies, spans_of
from tests.kafka_broker import Broker, SmallBroker, a_broker, written_raw

MIB = 1024 * 1024
Open = Callable[..., Awaitable[KafkaJournal]]


@pytest.fixture
def prefix() -> str:
    return f"{uuid4()}."


@pytest.fixture
async def open_journal(broker: Broker, prefix: str) -> AsyncIterator[Open]:
    opened: list[KafkaJournal] = []

    async def open_it(
        to: Broker = broker, metrics: Metrics | None = None, **config: Any
    ) -> KafkaJournal:
        settings = {
            "brokers": [to.address],
            "topic_prefix": prefix,
            "partitions": 4,
            "session_seconds": to.session_seconds,
        }
        kafka = KafkaJournalConfig.model_validate(settings | config)
        opened.append(await KafkaJournal.open(kafka, max_body_bytes=8 * MIB, metrics=metrics))
        return opened[-1]

    yield open_it
    for journal in opened:
        await journal.close()


async def read(consumer: Consumer, count: int, seconds: float = 20) -> list[Record]:
    records: list[Record] = []
    async with asyncio.timeout(seconds):
        while len(records) < count:
            records += await consumer.poll(count - len(records), 1)
    return records


def ids_of(body: bytes) -> set[str]:
    return {s.trace_id.hex() for s in spans_of(ExportTraceServiceRequest.FromString(body))}


# --- Keys ---


async def test_a_body_of_many_traces_is_taken_apart_and_each_trace_meets_one_partition(
    open_journal: Open,
) -> None:
    journal = await open_journal()
    (early,), (late,) = bodies(1, 30, seed=3), bodies(1, 30, seed=3)

    await journal.append([Entry(TELEMETRY, "otlp_traces", "", early)])
    await journal.append([Entry(TELEMETRY, "otlp_traces", "", late)])
    records = await read(await journal.consumer(TELEMETRY, "g"), 60)

    partitions: dict[str, set[int]] = {}
    for record in records:
        assert ids_of(record.body) == {record.key}
        partitions.setdefault(record.key, set()).add(record.position.partition)
    assert set(partitions) == ids_of(early)
    assert all(len(found) == 1 for found in partitions.values())
    assert len(set.union(*partitions.values())) > 1, "the work can be shared"


async def test_taken_apart_a_body_still_holds_every_span_with_its_resource() -> None:
    (body,) = bodies(1, 5)
    whole = otlp.decode_traces(body, "application/x-protobuf").spans

    parts = otlp.split_by_trace("otlp_traces", body)
    found = [
        span
        for part in parts.values()
        for span in otlp.decode_traces(part, "application/x-protobuf").spans
    ]

    assert len(parts) == 5
    assert sorted(found, key=str) == sorted(whole, key=str)


async def test_what_cannot_be_taken_apart_is_kept_whole(open_journal: Open) -> None:
    journal = await open_journal()
    await journal.append([Entry(TELEMETRY, "otlp_traces", "", b"\xff no protobuf")])
    (record,) = await read(await journal.consumer(TELEMETRY, "g"), 1)
    assert record.body == b"\xff no protobuf"


# --- Bounds ---


async def test_records_of_the_largest_body_go_through(open_journal: Open) -> None:
    journal = await open_journal()
    body = bytes(range(256)) * (8 * MIB // 256)
    await journal.append([Entry(SIGNALS, "signals", "s", body)])
    (record,) = await read(await journal.consumer(SIGNALS, "g"), 1)
    assert record.body == body


async def test_a_record_too_large_for_its_topic_fails_with_the_cure(open_journal: Open) -> None:
    journal = await open_journal()
    with pytest.raises(TransientDependencyError, match=r"max\.message\.bytes"):
        await journal.append([Entry(SIGNALS, "signals", "s", bytes(40 * MIB))])
    await journal.append([Entry(SIGNALS, "signals", "s", b"fits")])


async def test_senders_wait_while_too_much_is_under_way(
    open_journal: Open, metrics: Metrics
) -> None:
    journal = await open_journal(metrics=metrics)
    value = metrics.registry.get_sample_value
    large = [Entry(SIGNALS, "signals", "s", bytes(8 * MIB))]
    under_way = [asyncio.create_task(journal.append(large)) for _ in range(PENDING_BYTES // MIB)]
    outcomes = await asyncio.gather(*under_way, return_exceptions=True)

    refused = [outcome for outcome in outcomes if isinstance(outcome, Overloaded)]
    assert len(under_way) - len(refused) == PENDING_BYTES // (8 * MIB)
    assert value("groundwatch_journal_pending_bytes") == 0
    assert value("groundwatch_journal_pending_bytes_capacity") == PENDING_BYTES


async def test_a_reader_that_rests_keeps_its_partitions_and_holds_little(
    open_journal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_consumer, "_BUFFER_RECORDS", 100)
    journal = await open_journal(rebalance_seconds=1)
    await journal.append([Entry(SIGNALS, "signals", str(n), b"%d" % n) for n in range(1000)])
    consumer = await journal.consumer(SIGNALS, "g")
    (first,) = await read(consumer, 1)

    await asyncio.sleep(3 * journal._config.session_seconds)
    held = len(consumer._buffer)  # type: ignore[attr-defined]
    await consumer.commit({first.position.partition: first.position.offset + 1})
    rest = await read(consumer, 999)

    assert held <= 200
    assert sorted(int(r.body) for r in [first, *rest]) == list(range(1000))


async def test_a_full_reader_that_is_given_more_partitions_reads_on_in_those_it_had(
    open_journal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_consumer, "_BUFFER_RECORDS", 100)
    journal = await open_journal()
    first = await journal.consumer(SIGNALS, "g")
    await first.poll(1, 0.5)
    second = await journal.consumer(SIGNALS, "g")
    async with asyncio.timeout(30):
        while (first.share, second.share) != (0.5, 0.5):
            await second.poll(1, 0.1)
    await journal.append([Entry(SIGNALS, "signals", str(n), b"%d" % n) for n in range(2000)])
    await asyncio.sleep(2)  # until it is full
    await second.close()
    assert isinstance(first, kafka_consumer.KafkaConsumer)
    async with asyncio.timeout(30):
        await asyncio.gather(*map(first.owning, range(4)))
    await asyncio.sleep(1)
    found = await read(first, 2000)
    assert sorted(int(record.body) for record in found) == list(range(2000))


async def test_what_others_wrote_into_a_topic_costs_no_record_of_ours(
    open_journal: Open, broker: Broker, prefix: str
) -> None:
    journal = await open_journal()
    entries = [Entry(SIGNALS, "signals", "k", b"%d" % n) for n in range(2)]
    await journal.append(entries[:1])
    with written_raw(broker, prefix + SIGNALS) as write:
        for kind in (None, b"\xff", b"unheard of"):
            write([("kind", kind)])
    await journal.append(entries[1:])
    found = await read(await journal.consumer(SIGNALS, "g"), 5)
    assert sorted(record.body for record in found) == [b"0", b"1", b"x", b"x", b"x"]


async def test_members_of_a_group_have_shares_that_add_up(open_journal: Open) -> None:
    journal = await open_journal()
    first = await journal.consumer(SIGNALS, "g")
    await first.poll(1, 0.5)
    assert first.share == 1.0
    second = await journal.consumer(SIGNALS, "g")
    async with asyncio.timeout(30):
        while (first.share, second.share) != (0.5, 0.5):
            await second.poll(1, 0.1)


# --- Brokers that are not there ---


async def test_brokers_that_cannot_be_reached_are_named(open_journal: Open, free_port: Any) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(TransientDependencyError, match=address):
        await open_journal(brokers=[address])


@pytest.fixture
def own_broker(tmp_path: Path) -> Any:
    with a_broker(tmp_path / "own") as broker:
        yield broker


async def test_appends_fail_while_the_broker_is_away_and_go_on_when_it_is_back(
    open_journal: Open, own_broker: Broker
) -> None:
    journal = await open_journal(own_broker)
    consumer = await journal.consumer(SIGNALS, "g")
    await journal.append([Entry(SIGNALS, "signals", "s", b"before")])
    (before,) = await read(consumer, 1)
    await consumer.commit({before.position.partition: before.position.offset + 1})

    await asyncio.to_thread(own_broker.kill)
    with pytest.raises(TransientDependencyError):
        await journal.append([Entry(SIGNALS, "signals", "s", b"lost")])
    await asyncio.to_thread(own_broker.start)
    if isinstance(own_broker, SmallBroker):  # it has forgotten its topics, and who reads them
        await journal.close()
        journal = await open_journal(own_broker)
        consumer = await journal.consumer(SIGNALS, "g")

    deadline = time.monotonic() + 60
    while True:
        try:
            await journal.append([Entry(SIGNALS, "signals", "s", b"after")])
            break
        except TransientDependencyError:
            assert time.monotonic() < deadline
    bodies = [record.body for record in await read(consumer, 1, 60)]
    assert bodies[-1:] in ([b"after"], [b"lost"])
