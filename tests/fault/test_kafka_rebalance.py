"""Partitions that move to another process while their traces are half read: nothing is lost."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from collector import otlp
from collector.config import KafkaJournalConfig
from collector.journal.kafka import KafkaJournal
from collector.model import Span
from collector.ports import TELEMETRY, Entry
from collector.trace_files.encode import body_of_spans
from tests.bench.load import bodies
from tests.fakes.pipeline import Pipeline
from tests.fakes.store import MemoryStore
from tests.kafka_broker import Broker

TRACES = 40


class KafkaPipeline(Pipeline):
    """One process of several that share topics and a store."""

    def __init__(self, store: MemoryStore, kafka: KafkaJournalConfig, content: str) -> None:
        config: dict[str, Any] = {
            "assembler": {"quiet_seconds": 0.2, "rootless_seconds": 60},
            "store": {"content": content},
            "shutdown_seconds": 10,
        }
        super().__init__(store, config)
        self.kafka = kafka

    async def open_journal(self) -> KafkaJournal:
        return await KafkaJournal.open(self.kafka, max_body_bytes=1 << 20)

    @property
    def open_traces(self) -> float:
        return self.count("assembler_traces")


@pytest.fixture
def kafka(broker: Broker) -> KafkaJournalConfig:
    return KafkaJournalConfig(
        brokers=[broker.address],
        topic_prefix=f"{uuid4()}.",
        partitions=4,
        session_seconds=broker.session_seconds,
    )


def halves(seed: int) -> tuple[list[bytes], list[bytes], dict[str, int]]:
    """Return bodies with all but the root of each trace, with the root, and spans by trace."""
    first: list[bytes] = []
    second: list[bytes] = []
    sizes: dict[str, int] = {}
    for body in bodies(TRACES, 1, seed):
        spans: list[Span] = otlp.decode_traces(body, "application/x-protobuf").spans
        first.append(body_of_spans([span for span in spans if span.parent_span_id is not None]))
        second.append(body_of_spans([span for span in spans if span.parent_span_id is None]))
        sizes[spans[0].trace_id] = len(spans)
    return first, second, sizes


async def send(kafka: KafkaJournalConfig, telemetry: list[bytes]) -> None:
    journal = await KafkaJournal.open(kafka, max_body_bytes=1 << 20)
    await journal.append([Entry(TELEMETRY, "otlp_traces", "", body) for body in telemetry])
    await journal.close()


@pytest.mark.parametrize("content", ["full", "none"])
async def test_traces_are_whole_when_half_of_them_move_before_their_end(
    kafka: KafkaJournalConfig, content: str
) -> None:
    store = MemoryStore()
    first, second, sizes = halves(seed=1)
    one, two = KafkaPipeline(store, kafka, content), KafkaPipeline(store, kafka, content)
    async with one.running():
        await send(kafka, first)
        await one.until(lambda: one.open_traces == TRACES)
        async with two.running():
            await one.until(lambda: one.open_traces < TRACES)
            assert one.count("traces_closed_total", reason="shutdown") == TRACES - one.open_traces
            await send(kafka, second)
            await one.until(lambda: is_whole(store, sizes))
            # It counts them once their tasks are passed on, which may be after they are judged.
            await two.until(lambda: two.count("traces_closed_total", reason="root") > 0)
        # The one that is left takes all partitions back.
        first, second, more = halves(seed=2)
        await send(kafka, first)
        await send(kafka, second)
        await one.until(lambda: is_whole(store, sizes | more))
    assert not one.letters.kept + two.letters.kept


def is_whole(store: MemoryStore, sizes: dict[str, int]) -> bool:
    """Whether all traces are stored with all their spans, and judged once as they are stored."""
    if {trace_id: len(row.span_ids) for trace_id, row in store.by_trace.items()} != sizes:
        return False
    judged = [(j.trace_id, j.request_version) for j in store.judgements.values()]
    stored = [(i, row.version) for i, row in store.by_trace.items() if row.ineligible is None]
    return sorted(judged) == sorted(stored)
