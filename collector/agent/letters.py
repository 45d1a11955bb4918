"""Where an agent keeps its dead letters, and where commands find them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from collector.agent.opening import extra
from collector.config import Resolved
from sinks.dead_letters import DeadLetterFile

if TYPE_CHECKING:
    from sinks.dead_letter_topic import DeadLetterTopic


@contextmanager
def dead_letters_of(resolved: Resolved) -> Iterator[DeadLetterFile | DeadLetterTopic]:
    """Give out the dead letters: on Kafka where the journal is there, else in a file."""
    config = resolved.config
    keeps_texts = config.store.content == "full"
    if config.journal.kafka is None:
        yield DeadLetterFile(config.data_dir, bodies=keeps_texts)
        return
    with extra("kafka", "journal.kafka"):
        from sinks.dead_letter_topic import DeadLetterTopic
    topic = DeadLetterTopic(
        config.journal.kafka,
        resolved.secrets.kafka_journal_password,
        max_body_bytes=config.receive.max_body_bytes,
        bodies=keeps_texts,
    )
    with closing(topic):
        yield topic
