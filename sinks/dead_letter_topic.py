"""Dead letters in a topic of Kafka, for agents that share their journal there.

A message holds what the record held, its headers say why and from where, its key is the letter's
id. The journal makes the topic, compacted: a message of the same key without a value takes the
letter away.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from kafka.errors import KafkaError, MessageSizeTooLargeError
from pydantic import SecretStr

from collector.config import KafkaJournalConfig
from collector.errors import DependencyError
from collector.kafka.client import Brokers
from collector.ports import DEAD_LETTERS, Record
from collector.timing import Clock, SystemClock
from sinks.dead_letters import About, DeadLetter

_NOT_WRITTEN = "dead letters: not written: "
_SEND_SECONDS = 15.0
_KEY_CHARACTERS = 1000
"""Kept of a key where a letter is too large; those of our own topics are shorter."""


class DeadLetterTopic:
    """The dead letters of all agents that share a journal on Kafka. Every method blocks.

    Args:
        config: of the journal.
        password: of its login, if there is one.
        max_body_bytes: largest body that must fit into a letter; of larger ones the rest is kept.
        bodies: whether what records hold may be kept; they are texts of users.
        clock: where the time comes from.
    """

    def __init__(
        self,
        config: KafkaJournalConfig,
        password: SecretStr | None,
        *,
        max_body_bytes: int,
        bodies: bool,
        clock: Clock | None = None,
    ) -> None:
        self._brokers = Brokers(config.brokers, config.security, password)
        self._topic = config.topic_prefix + DEAD_LETTERS
        self._max_body_bytes = max_body_bytes
        self._bodies = bodies
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._producer: Any = None

    def append(self, record: Record, reason: str) -> None:
        """Durably set a record aside; doing so again changes nothing.

        Args:
            record: the record, as read from its topic.
            reason: short machine-readable reason, free of any text of users.

        Raises:
            DependencyError: the brokers cannot be reached now, or say no.
        """
        headers = self._headers(record, reason)
        body = record.body if self._bodies else b""
        try:
            self._send([(_id_of(record), body, headers)])
        except MessageSizeTooLargeError:
            headers["key"] = record.key[:_KEY_CHARACTERS]
            self._send([(_id_of(record), b"", headers)])

    def read(self) -> Iterator[DeadLetter]:
        """Yield what is set aside, oldest first. What others wrote into the topic is left out.

        Raises:
            DependencyError: the brokers cannot be reached now, or say no.
        """
        letters: dict[str, DeadLetter] = {}
        for message in self._brokers.all_in(self._topic):
            letter_id = (message.key or b"").decode(errors="replace")
            letters.pop(letter_id, None)
            if message.value is not None and (letter := _decoded(letter_id, message)) is not None:
                letters[letter_id] = letter
        yield from letters.values()

    def remove(self, letter_ids: Collection[str]) -> None:
        """Forget dead letters that were replayed; agents may set others aside meanwhile.

        Raises:
            DependencyError: the brokers cannot be reached now, or say no.
        """
        self._send([(letter_id, None, {}) for letter_id in letter_ids])

    def close(self) -> None:
        """Release the connection. May be called twice."""
        with self._lock:
            self._disconnect()

    def _headers(self, record: Record, reason: str) -> dict[str, str]:
        said = About.of(record, reason, self._clock.now())
        return {name: str(value) for name, value in msgspec.to_builtins(said).items()}

    def _send(self, messages: list[tuple[str, bytes | None, Mapping[str, str]]]) -> None:
        with self._lock:
            try:
                if self._producer is None:
                    self._producer = self._brokers.producer(self._max_body_bytes)
                under_way = [
                    self._producer.send(
                        self._topic,
                        key=letter_id.encode(),
                        value=body,
                        headers=[(name, text.encode()) for name, text in headers.items()],
                    )
                    for letter_id, body, headers in messages
                ]
                for sent in under_way:
                    sent.get(_SEND_SECONDS)
            except MessageSizeTooLargeError:
                raise
            except DependencyError:
                raise
            except Exception as err:
                self._disconnect()  # a client that has failed once may never work again
                raise self._brokers.explain(err, _NOT_WRITTEN) from err

    def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaError, RuntimeError):
                producer.close(timeout=0)


def _id_of(record: Record) -> str:
    """Return a name that is the same however often a record is set aside."""
    place = f"{record.kind} {record.position.partition} {record.position.offset} {record.key} "
    return hashlib.sha256(place.encode() + record.body).hexdigest()[:12]


def _decoded(letter_id: str, message: Any) -> DeadLetter | None:
    try:
        texts = {name: text.decode() for name, text in message.headers if text is not None}
        said = msgspec.convert(texts, About, strict=False)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return None
    return said.letter(message.value, letter_id)
