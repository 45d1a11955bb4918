"""Topics of a Collector and of applications, read from a real broker into a journal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.json_format import MessageToJson
from kafka import KafkaProducer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry

from collector import otlp
from collector.config import Config, KafkaSecurityConfig, KafkaSourceConfig
from collector.errors import Overloaded, TransientDependencyError
from collector.kafka.client import Brokers
from collector.ports import SIGNALS, TELEMETRY
from collector.receivers.kafka import WINDOW, open_readers
from collector.telemetry import Metrics
from collector.timing import SystemClock
from tests.bench.load import bodies
from tests.fakes.journal import MemoryJournal
from tests.fakes.otlp_bodies import log_request
from tests.fakes.pipeline import Letters
from tests.kafka_broker import Broker

THUMB = {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "kind": "thumbs_down"}


class Topics:
    """Topics of one test, what is written to them, and an agent's readers of them."""

    def __init__(self, broker: Broker) -> None:
        self.names = {kind: f"{kind}-{uuid4()}" for kind in ("traces", "logs", "signals")}
        self.broker = broker
        self.journal = MemoryJournal()
        self.letters = Letters()
        self.metrics = Metrics(CollectorRegistry())

    def make(self) -> None:
        brokers = Brokers([self.broker.address], KafkaSecurityConfig(), None)
        brokers.make_topics(self.names.values(), partitions=3, replication=None, settings={})

    def write(self, kind: str, *values: bytes, compression: str | None = None) -> None:
        producer = KafkaProducer(
            bootstrap_servers=[self.broker.address], compression_type=compression
        )
        for sent in [producer.send(self.names[kind], value=value) for value in values]:
            sent.get(10)
        producer.close()

    @asynccontextmanager
    async def read(self, **receive: Any) -> AsyncIterator[list[asyncio.Task[None]]]:
        source = KafkaSourceConfig(
            brokers=[self.broker.address],
            group="watch",
            session_seconds=self.broker.session_seconds,
            **self.names,
        )
        readers = await open_readers(
            source,
            None,
            journal=self.journal,
            dead_letters=self.letters,
            metrics=self.metrics,
            config=Config.model_validate({"receive": receive}),
            clock=SystemClock(),
        )
        stop = asyncio.Event()
        tasks = [asyncio.create_task(reader.run(stop)) for reader in readers]
        try:
            yield tasks
        finally:
            stop.set()
            await asyncio.wait_for(asyncio.gather(*tasks), 30)

    async def until(self, entries: int, letters: int = 0) -> None:
        def lacking() -> bool:
            return len(self.journal.entries) < entries or len(self.letters.kept) < letters

        async with asyncio.timeout(30):
            while lacking():  # noqa: ASYNC110 - looks at state of other tasks
                await asyncio.sleep(0.05)

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"groundwatch_{name}", labels) or 0


@pytest.fixture
def topics(broker: Broker) -> Topics:
    topics = Topics(broker)
    topics.make()
    return topics


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_spans_come_as_protobuf_and_as_json_however_compressed(
    topics: Topics, compression: str | None
) -> None:
    first, second = bodies(2, 1)
    as_json = MessageToJson(ExportTraceServiceRequest.FromString(second)).encode()
    topics.write("traces", first, as_json, compression=compression)

    async with topics.read():
        await topics.until(2)

    found = [
        sorted(str(span) for span in otlp.decode_traces(entry.body, "").spans)
        for entry in topics.journal.entries
        if (entry.topic, entry.kind) == (TELEMETRY, "otlp_traces")
    ]
    sent = [sorted(str(s) for s in otlp.decode_traces(body, "").spans) for body in (first, second)]
    assert sorted(found) == sorted(sent)
    spans = sum(len(body) for body in sent)
    assert topics.count("spans_received_total", transport="kafka") == spans


async def test_logs_and_signals_have_topics_of_their_own(topics: Topics) -> None:
    topics.write("logs", log_request(3).SerializeToString())
    topics.write(
        "signals", json.dumps(THUMB).encode(), json.dumps([THUMB | {"user_id": "u"}]).encode()
    )

    async with topics.read():
        await topics.until(3)

    kinds = sorted((entry.topic, entry.kind) for entry in topics.journal.entries)
    assert kinds == [(SIGNALS, "signals"), (SIGNALS, "signals"), (TELEMETRY, "otlp_logs")]
    assert topics.count("signals_received_total", kind="thumbs_down") == 2


async def test_what_cannot_be_read_is_set_aside_with_its_place_and_the_rest_goes_on(
    topics: Topics,
) -> None:
    good = list(bodies(10, 1))
    topics.write("traces", *good[:5], b"\x00 poison", bytes(2000), *good[5:])
    topics.write("signals", b'{"kind": "thumbs_sideways"}', b"[1, 2")

    async with topics.read(max_body_bytes=200_000):
        await topics.until(10, letters=4)

    reasons = sorted((record.kind, reason) for record, reason in topics.letters.kept)
    assert reasons == [("otlp_traces", "malformed")] * 2 + [("signals", "malformed")] * 2
    bodies_kept = {record.body for record, _ in topics.letters.kept}
    assert b"\x00 poison" in bodies_kept
    places = {record.position for record, _ in topics.letters.kept if record.kind == "otlp_traces"}
    assert len(places) == 2
    assert topics.count("dead_letters_total", reason="malformed") == 4


async def test_a_record_over_the_bound_is_set_aside_as_too_large(topics: Topics) -> None:
    (large,) = bodies(1, 20)
    (small,) = bodies(1, 1)
    topics.write("traces", large, small)

    async with topics.read(max_body_bytes=len(large) - 1):
        await topics.until(1, letters=1)

    assert [reason for _, reason in topics.letters.kept] == ["too_large"]


async def test_a_topic_in_another_format_stops_its_reader_before_it_is_drained(
    topics: Topics,
) -> None:
    jaeger = [b"\x00jaeger %d" % number for number in range(5 * WINDOW)]
    topics.write("traces", *jaeger)
    topics.write("signals", json.dumps(THUMB).encode())

    async with topics.read() as tasks:
        await asyncio.wait(tasks, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        await topics.until(1)
        assert sum(task.done() for task in tasks) == 1, "only that topic's"

    # What it set aside before it was sure; the others wait in the topic.
    assert len(topics.letters.kept) < WINDOW


async def test_a_topic_in_another_format_is_not_drained_by_starting_again(topics: Topics) -> None:
    topics.write("traces", *(b"\x00jaeger %d" % number for number in range(5 * WINDOW)))
    for _ in range(3):
        async with topics.read() as tasks:
            await asyncio.wait(tasks, timeout=30, return_when=asyncio.FIRST_COMPLETED)
            assert sum(task.done() for task in tasks) == 1
    # Each time half of them at most: one more, and it is certain.
    assert len(topics.letters.kept) <= 3 * WINDOW // 2


async def test_nothing_is_committed_that_is_not_in_the_journal(topics: Topics) -> None:
    (body,) = bodies(1, 1)
    topics.write("traces", body)
    topics.journal.append_failures += [TransientDependencyError("down"), Overloaded("journal")]
    topics.journal.running.clear()
    async with topics.read():
        await asyncio.sleep(1)
        assert topics.journal.entries == []
        topics.journal.running.set()
        await topics.until(1)

    async with topics.read():
        await asyncio.sleep(2)
    assert len(topics.journal.entries) == 1, "once committed it is not read again"


async def test_a_reader_that_ends_before_the_journal_has_it_leaves_it_in_the_topic(
    topics: Topics,
) -> None:
    (body,) = bodies(1, 1)
    topics.write("traces", body)
    topics.journal.append_failures += [TransientDependencyError("down")] * 1000
    async with topics.read():
        await asyncio.sleep(2)
    topics.journal.append_failures.clear()
    assert topics.journal.entries == []

    async with topics.read():
        await topics.until(1)


@pytest.mark.apache_kafka
async def test_a_topic_that_is_made_later_is_read_from_then_on(broker: Broker) -> None:
    topics = Topics(broker)
    async with topics.read():
        await asyncio.to_thread(topics.make)
        topics.write("signals", json.dumps(THUMB).encode())
        await topics.until(1)
