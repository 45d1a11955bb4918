"""A topic whose traces lie scattered, with poison in it, read by an agent that is killed."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kafka import KafkaProducer
from prometheus_client import CollectorRegistry

from collector import otlp
from collector.config import KafkaJournalConfig, KafkaSecurityConfig, StoreConfig
from collector.kafka.client import Brokers
from collector.telemetry import Metrics
from collector.trace_files.encode import body_of_spans
from sinks.clickhouse import ClickHouseStore
from sinks.dead_letter_topic import DeadLetterTopic
from tests.bench.load import bodies
from tests.kafka_broker import Broker, a_broker
from tests.processes import AgentProcess

TRACES = 250
POISON_EVERY = 1000


def config_of(broker: Broker, topic: str) -> dict[str, Any]:
    place = {"brokers": [broker.address], "session_seconds": broker.session_seconds}
    journal = {"topic_prefix": f"{topic}.", "partitions": 4}
    source = {"traces": topic, "logs": None, "signals": None, "max_bad_share": 0.1}
    return {
        "assembler": {"quiet_seconds": 1.0, "rootless_seconds": 300},
        "judge": {"concurrency": 16},
        "journal": {"kafka": place | journal},
        "source": {"kafka": place | source},
    }


def scattered(seed: int) -> tuple[list[bytes], dict[str, int]]:
    """Return a message for each span, in any order, poison among them; and spans by trace."""
    spans = [s for body in bodies(TRACES, 1, seed) for s in otlp.decode_traces(body, "").spans]
    sizes: dict[str, int] = {}
    for span in spans:
        sizes[span.trace_id] = sizes.get(span.trace_id, 0) + 1
    messages = [body_of_spans([span]) for span in spans]
    # Not all over the stream: a trace takes seconds, not the length of the test.
    rng = random.Random(seed)
    order = sorted(range(len(messages)), key=lambda place: place + rng.uniform(0, 100))
    messages = [messages[place] for place in order]
    for place in range(POISON_EVERY // 2, len(messages), POISON_EVERY):
        messages.insert(place, b"\x00 poison")
    return messages, sizes


def write(broker: Broker, topic: str, messages: list[bytes]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=[broker.address], compression_type="zstd", linger_ms=5
    )
    for number, message in enumerate(messages):  # without keys, spread over the partitions
        producer.send(topic, value=message, partition=number % 3)
    producer.flush()
    producer.close()


def made(broker: Broker) -> str:
    topic = f"otlp_spans-{uuid4()}"
    brokers = Brokers([broker.address], KafkaSecurityConfig(), None)
    brokers.make_topics([topic], partitions=3, replication=None, settings={})
    return topic


def settle(agent: AgentProcess, requests: int) -> dict[str, Any]:
    """Wait until so many requests are stored and judged, and that for a while."""
    deadline = time.monotonic() + 150
    quiet_since = time.monotonic()
    totals: dict[str, Any] = {}
    before: dict[str, Any] = {}
    while time.monotonic() < deadline:
        totals = agent.totals()
        if totals != before or totals["requests"] < requests or totals["waiting"]:
            quiet_since = time.monotonic()
        if time.monotonic() - quiet_since > 4:
            return totals
        before = totals
        time.sleep(0.5)
    raise AssertionError(f"the agent did not settle: {totals}")


async def stored_spans(data_dir: Path, ids: list[str]) -> dict[str, int]:
    url = f"chdb://{data_dir / 'clickhouse'}"
    store = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    try:
        rows = await store.requests(ids)
        return {trace_id: len(row.span_ids) for trace_id, row in rows.items()}
    finally:
        await store.close()


@pytest.mark.timeout(400)
def test_scattered_traces_are_stored_whole_and_once_whatever_is_killed(
    tmp_path: Path, broker: Broker
) -> None:
    topic = made(broker)
    messages, sizes = scattered(seed=5)
    agent = AgentProcess(tmp_path, config_of(broker, topic))
    rng = random.Random(5)
    for part in range(2):
        half = len(messages) // 2
        write(broker, topic, messages[part * half :] if part else messages[:half])
        agent.start()
        time.sleep(rng.uniform(0.5, 3))
        agent.kill()
    with agent:
        totals = settle(agent, len(sizes))

    assert asyncio.run(stored_spans(agent.data_dir, sorted(sizes))) == sizes
    assert totals["requests"] == len(sizes)
    assert totals["accounting_ok"]
    journal = KafkaJournalConfig(brokers=[broker.address], topic_prefix=f"{topic}.")
    with closing(DeadLetterTopic(journal, None, max_body_bytes=1024, bodies=True)) as kept:
        letters = [letter.record for letter in kept.read()]
    # Set aside before it is committed, so a kill in between sets it aside again.
    assert len(letters) == sum(message.startswith(b"\x00") for message in messages)
    assert {record.body for record in letters} == {b"\x00 poison"}


@pytest.mark.apache_kafka
@pytest.mark.timeout(600)
def test_a_broker_that_is_killed_and_comes_back_loses_nothing(tmp_path: Path) -> None:
    messages, sizes = scattered(seed=6)
    with a_broker(tmp_path / "broker") as broker:
        topic = made(broker)
        write(broker, topic, messages[: len(messages) // 2])
        with AgentProcess(tmp_path, config_of(broker, topic)) as agent:
            time.sleep(3)
            broker.kill()
            time.sleep(3)
            broker.start()
            write(broker, topic, messages[len(messages) // 2 :])
            totals = settle(agent, len(sizes))
    assert asyncio.run(stored_spans(agent.data_dir, sorted(sizes))) == sizes
    assert totals["requests"] == len(sizes)
    assert totals["accounting_ok"]
