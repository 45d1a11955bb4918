"""Telemetry and signals from topics of Kafka, as an OpenTelemetry Collector writes them.

A record is committed once it is durable in the journal, or among the dead letters where it can
never be read. A Collector scatters a trace over partitions unless it is told otherwise; the
journal brings its spans together again, by their trace id.

Where too much of a topic cannot be read, the fault is in how it is written or read, not in single
records: reading then stops, before the topic is drained into the dead letters.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import structlog
from pydantic import SecretStr

from collector.config import Config, KafkaSourceConfig
from collector.errors import MalformedPayload, Overloaded, TransientDependencyError
from collector.kafka.client import Brokers
from collector.kafka.consumer import KafkaConsumer
from collector.ports import Consumer, DeadLetters, Journal, Position, Record
from collector.receivers.density import TooManyValues
from collector.receivers.intake import Intake
from collector.set_aside import Reason, SetAside, log_fault
from collector.signals import parse_signals
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Patience

SourceKind = Literal["otlp_traces", "otlp_logs", "signals"]

WINDOW = 100
"""Records over which the share of unreadable ones is taken."""

_POLL_RECORDS = 64
_POLL_SECONDS = 0.2

log = structlog.get_logger()


class TopicReader:
    """Reads one topic into the journal.

    Args:
        consumer: of the topic.
        topic: its name, for messages.
        kind: what its records hold.
        journal: where they go.
        dead_letters: where those go that can never be read.
        metrics: our own metrics.
        config: the configuration, with the source in it.
        clock: the time.
    """

    def __init__(
        self,
        *,
        consumer: Consumer,
        topic: str,
        kind: SourceKind,
        journal: Journal,
        dead_letters: DeadLetters,
        metrics: Metrics,
        config: Config,
        source: KafkaSourceConfig,
        clock: Clock,
    ) -> None:
        self.consumer = consumer
        self.topic = topic
        self._kind = kind
        self._intake = Intake(journal, metrics, "kafka")
        self._set_aside = SetAside(dead_letters, metrics)
        self._metrics = metrics
        self._max_bytes = config.receive.max_body_bytes
        self._source = source
        self._clock = clock
        self._lately: deque[bool] = deque(maxlen=WINDOW)
        self._warn = RateLimitedLog()
        # Held from a poll to its commit: partitions move in between.
        self._turn = asyncio.Lock()
        consumer.before_letting_go(self._let_go)

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set, or too much cannot be read."""
        patiently = Patience(
            stop, lambda e: self._warn.warning("waiting_for_dependency", error=type(e).__name__)
        )
        with suppress(TransientDependencyError, Overloaded):  # only once stopping
            while not stop.is_set():
                beat = self._metrics.loop_timestamp.labels(f"kafka {self.topic}")
                beat.set(self._clock.now().timestamp())
                async with self._turn:
                    if not await self._read_some(patiently):
                        break
        await self.consumer.close()

    async def _read_some(self, patiently: Patience) -> bool:
        """Bring what there is to the journal, then commit; False where reading has to stop."""
        records = await patiently(self.consumer.poll, _POLL_RECORDS, _POLL_SECONDS)
        if not records:
            return True
        reasons = await asyncio.gather(*(self._take(record, patiently) for record in records))
        self._lately.extend(reason is not None for reason in reasons)
        # Decided as soon as it is certain: who starts again and again must not drain it either.
        if sum(self._lately) > self._source.max_bad_share * WINDOW:
            log.error(
                "reading_stopped",
                topic=self.topic,
                unreadable=sum(self._lately),
                of_the_last=len(self._lately),
                cure="check the topic's name and encoding (otlp_proto or otlp_json for traces and "
                "logs, JSON for signals), then start again; or raise source.kafka.max_bad_share",
            )
            return False
        for record, reason in zip(records, reasons, strict=True):
            if reason is not None:
                await self._set_aside([record], reason, patiently)
        await patiently(self.consumer.commit, _after(records))
        return True

    async def _take(self, record: Record, patiently: Patience) -> Reason | None:
        """Append a record to the journal, or return why it never can be."""
        if len(record.body) > self._max_bytes:
            self._intake.refused("too_large")
            return "too_large"
        try:
            if self._kind == "signals":
                parsed = await patiently(
                    self._intake.signals,
                    record.body,
                    lambda body: parse_signals(body, self._clock.now()),
                )
                return "malformed" if parsed.rejected else None
            key = record.key if self._source.keyed else ""
            await patiently(self._intake.telemetry, self._kind, record.body, "", key)
        except MalformedPayload:
            self._intake.refused("malformed")
            return "malformed"
        except TooManyValues:
            self._intake.refused("too_large")
            return "too_large"
        except (TransientDependencyError, Overloaded):
            raise
        except Exception as err:
            self._intake.refused("internal")
            log_fault("record_set_aside", err)
            return "internal"
        return None

    async def _let_go(self, _: set[int]) -> None:
        """Finish the turn: with it everything that was polled is committed."""
        async with self._turn:
            pass


async def open_readers(
    source: KafkaSourceConfig,
    password: SecretStr | None,
    *,
    journal: Journal,
    dead_letters: DeadLetters,
    metrics: Metrics,
    config: Config,
    clock: Clock,
) -> list[TopicReader]:
    """Join the consumer groups of the topics named in a source.

    Raises:
        DependencyError: the brokers cannot be reached, or say no.
    """
    brokers = Brokers(source.brokers, source.security, password)
    named: dict[SourceKind, str | None] = {
        "otlp_traces": source.traces,
        "otlp_logs": source.logs,
        "signals": source.signals,
    }
    topics = {kind: topic for kind, topic in named.items() if topic is not None}
    there = await asyncio.to_thread(brokers.topics)
    for topic in set(topics.values()) - there:
        log.warning("topic_missing", topic=topic, cure="it is read once it is there")

    async def reader_of(kind: SourceKind, topic: str) -> TopicReader:
        consumer = await KafkaConsumer.join(
            brokers,
            topic,
            f"{source.group}.{topic}",
            lambda message: _record_of(message, kind),
            session_seconds=source.session_seconds,
            rebalance_seconds=source.rebalance_seconds,
            clock=clock,
        )
        return TopicReader(
            consumer=consumer,
            topic=topic,
            kind=kind,
            journal=journal,
            dead_letters=dead_letters,
            metrics=metrics,
            config=config,
            source=source,
            clock=clock,
        )

    return await asyncio.gather(*(reader_of(kind, topic) for kind, topic in topics.items()))


def _record_of(message: Any, kind: SourceKind) -> Record:
    return Record(
        position=Position(message.partition, message.offset),
        kind=kind,
        key=(message.key or b"").decode(errors="replace"),
        body=message.value or b"",
        appended_at=message.timestamp / 1000,
    )


def _after(records: Sequence[Record]) -> dict[int, int]:
    """Return the first offset not read, by partition; records are in order."""
    return {record.position.partition: record.position.offset + 1 for record in records}
