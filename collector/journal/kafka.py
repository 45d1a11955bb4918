"""The journal on Kafka: topics keyed by trace id, shared by any number of processes.

An append returns once all in-sync replicas have its records. What one trace holds goes to one
partition and so to one consumer: bodies with several traces are taken apart first.

Kafka deletes records by age, done or not: `retention_hours` must outlast any outage. A process
that goes away hands its partitions to the others, which start at the committed positions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, get_args

from google.protobuf.message import DecodeError
from kafka.errors import KafkaError, MessageSizeTooLargeError
from pydantic import SecretStr

from collector.config import KafkaJournalConfig
from collector.errors import DependencyError, Overloaded, TransientDependencyError
from collector.kafka.client import ENVELOPE_BYTES, Brokers
from collector.kafka.consumer import KafkaConsumer
from collector.otlp import split_by_trace
from collector.ports import (
    CONVERSATIONS,
    DEAD_LETTERS,
    JUDGE,
    SIGNALS,
    TELEMETRY,
    Consumer,
    Entry,
    EntryKind,
    Position,
    Record,
)
from collector.telemetry import Metrics
from collector.timing import Clock, SystemClock

TOPICS = (TELEMETRY, SIGNALS, JUDGE, CONVERSATIONS)

PENDING_BYTES = 128 * 1024 * 1024
"""Bodies held in memory until the brokers have them; beyond that senders are told to wait."""

_KINDS: dict[str, EntryKind] = {kind: kind for kind in get_args(EntryKind)}
_DEAD_LETTER_BYTES = 256 * 1024 * 1024
_CLOSE_SECONDS = 5.0


class KafkaJournal:
    """A `collector.ports.Journal` on Kafka. All its coroutines belong to one event loop."""

    def __init__(
        self,
        brokers: Brokers,
        config: KafkaJournalConfig,
        max_body_bytes: int,
        metrics: Metrics | None,
        clock: Clock,
    ) -> None:
        """Take over brokers whose topics are there; use `open` instead."""
        self._brokers = brokers
        self._config = config
        self._max_body_bytes = max_body_bytes
        self._metrics = metrics
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._consumers: list[KafkaConsumer] = []
        # Owned by the loop.
        self._pending_bytes = 0
        self._appends: set[_Append] = set()
        # Owned by the sending thread.
        self._sender = ThreadPoolExecutor(1, "journal-sender")
        self._producer: Any = None
        self._suspect = False
        if metrics is not None:
            metrics.journal_pending_bytes_capacity.set(PENDING_BYTES)

    @classmethod
    async def open(
        cls,
        config: KafkaJournalConfig,
        *,
        max_body_bytes: int,
        password: SecretStr | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> KafkaJournal:
        """Connect, and make the topics that are missing.

        Args:
            config: where and how.
            max_body_bytes: largest body that must fit into a record.
            password: of the login, if there is one.
            metrics: our own metrics.
            clock: the time that records are stamped with.

        Raises:
            DependencyError: the brokers cannot be reached, or say no.
        """
        brokers = Brokers(config.brokers, config.security, password)
        settings = {
            "retention.ms": str(round(config.retention_hours * 3_600_000)),
            "max.message.bytes": str(max_body_bytes + ENVELOPE_BYTES),
        }
        await asyncio.to_thread(
            brokers.make_topics,
            [config.topic_prefix + topic for topic in TOPICS],
            partitions=config.partitions,
            replication=config.replication,
            settings=settings,
        )
        await asyncio.to_thread(
            brokers.make_topics,
            [config.topic_prefix + DEAD_LETTERS],
            partitions=1,  # so that they are in order
            replication=config.replication,
            settings=settings
            | {"cleanup.policy": "compact,delete", "retention.bytes": str(_DEAD_LETTER_BYTES)},
        )
        return cls(brokers, config, max_body_bytes, metrics, clock or SystemClock())

    async def append(self, entries: Sequence[Entry]) -> None:
        """See `collector.ports.Journal.append`. Not in one step: some may be in, others not."""
        if self._closed:
            raise TransientDependencyError("the journal is closed")
        if not entries:
            return
        size = sum(len(entry.body) for entry in entries)
        if self._pending_bytes and self._pending_bytes + size > PENDING_BYTES:
            raise Overloaded("journal", retry_after_seconds=1.0)
        append = _Append(self._loop)
        self._appends.add(append)
        self._hold(size)
        try:
            self._sender.submit(self._send, list(entries), append)
            await append.done
        finally:
            self._hold(-size)
            self._appends.discard(append)

    async def consumer(self, topic: str, group: str) -> Consumer:
        """Join a consumer group and wait a moment for its first share of the partitions.

        A group seen for the first time starts at the oldest record that is still there.
        """
        prefix = self._config.topic_prefix
        consumer = await KafkaConsumer.join(
            self._brokers,
            prefix + topic,
            f"{prefix}{topic}.{group}",
            record_of,
            session_seconds=self._config.session_seconds,
            rebalance_seconds=self._config.rebalance_seconds,
            clock=self._clock,
        )
        self._consumers.append(consumer)
        return consumer

    async def close(self) -> None:
        """Send what was accepted and leave all groups. May be called twice."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(consumer.close() for consumer in self._consumers))
        await asyncio.to_thread(self._sender.shutdown)
        await asyncio.to_thread(self._disconnect, _CLOSE_SECONDS)
        self._give_up(list(self._appends))

    def _hold(self, size: int) -> None:
        self._pending_bytes += size
        if self._metrics is not None:
            self._metrics.journal_pending_bytes.set(self._pending_bytes)

    # --- the sending thread ---

    def _send(self, entries: list[Entry], append: _Append) -> None:
        """Hand entries to the client; the last that is acknowledged settles the append."""
        try:
            producer = append.producer = self._connected()
            now = round(self._clock.now().timestamp() * 1000)
            for entry in entries:
                for part in keyed(entry):
                    append.expect_one()
                    sent = producer.send(
                        self._config.topic_prefix + part.topic,
                        value=part.body,
                        key=part.key.encode() or None,
                        headers=[("kind", part.kind.encode())],
                        timestamp_ms=now,
                    )
                    sent.add_callback(append.one_is_in)
                    sent.add_errback(partial(self._failed, append))
            append.all_sent()
        except DependencyError as err:
            append.fail(err)
        except Exception as err:
            self._failed(append, err)

    def _failed(self, append: _Append, err: BaseException) -> None:
        """Fail an append; a client that has failed once may never work again."""
        if isinstance(err, MessageSizeTooLargeError):
            append.fail(
                TransientDependencyError(
                    f"kafka at {self._brokers.addresses}: a record is larger than its topic "
                    "allows; raise the topic's max.message.bytes or lower receive.max_body_bytes"
                )
            )
            return
        self._suspect = True
        append.fail(self._brokers.explain(err, "not appended: "))

    def _connected(self) -> Any:
        if self._suspect:
            # What is under way in it is resolved by nobody; its appends are tried again.
            under_way = [one for one in list(self._appends) if one.producer is self._producer]
            self._disconnect(0.0)
            self._give_up(under_way)
        if self._producer is None:
            self._producer = self._brokers.producer(self._max_body_bytes)
            self._suspect = False
        return self._producer

    def _disconnect(self, seconds: float) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaError, RuntimeError):
                producer.close(timeout=seconds)

    def _give_up(self, appends: list[_Append]) -> None:
        for append in appends:
            append.fail(TransientDependencyError("not appended: the connection was given up"))


class _Append:
    """An append under way. `done` is a future of the loop; the rest is called in any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._lock = threading.Lock()
        self._missing = 1  # for the sending itself
        self.producer: Any = None

    def expect_one(self) -> None:
        with self._lock:
            self._missing += 1

    def one_is_in(self, _: object) -> None:
        with self._lock:
            self._missing -= 1
            complete = self._missing == 0
        if complete:
            self._settle(None)

    def all_sent(self) -> None:
        self.one_is_in(None)

    def fail(self, err: DependencyError) -> None:
        self._settle(err)

    def _settle(self, err: DependencyError | None) -> None:
        def answer() -> None:
            if self.done.done():
                return
            if err is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(err)

        with suppress(RuntimeError):  # the loop is gone, and with it who waited
            self._loop.call_soon_threadsafe(answer)


def keyed(entry: Entry) -> list[Entry]:
    """Return telemetry of several traces as an entry for each, so that each has its key.

    What cannot be read stays whole; whoever consumes it sets it aside.
    """
    if entry.key or (entry.kind != "otlp_traces" and entry.kind != "otlp_logs"):
        return [entry]
    try:
        parts = split_by_trace(entry.kind, entry.body)
    except DecodeError:
        return [entry]
    return [entry._replace(key=trace_id, body=body) for trace_id, body in parts.items()]


def record_of(message: Any) -> Record:
    """Return a message of our own topics as a record, whoever wrote it. Raises nothing."""
    kind = (dict(message.headers).get("kind") or b"").decode(errors="replace")
    return Record(
        position=Position(message.partition, message.offset),
        kind=_KINDS.get(kind, "otlp_traces"),
        key=(message.key or b"").decode(errors="replace"),
        body=message.value or b"",
        appended_at=message.timestamp / 1000,
    )
