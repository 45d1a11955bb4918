"""Have a real Collector write topics of Kafka in every way it can, and an agent read them.

Spans and log records are sent to the Collector a few at a time, of any traces and in any order.
What the agent then has stored must be what an agent stores that is sent the same traces whole,
without a Collector. `make test-collector` builds the Collector and runs this; with
GROUNDWATCH_KAFKA_LIBS it runs on Apache Kafka.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
from kafka import KafkaProducer
from prometheus_client import CollectorRegistry

from collector.config import KafkaSecurityConfig, StoreConfig
from collector.kafka.client import Brokers
from collector.model import StoredRequest
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore
from sinks.dead_letters import DeadLetterFile
from tests.conftest import ROOT
from tests.kafka_broker import Broker, SmallBroker, a_broker
from tests.live.otel_collector import OtelCollector, fault_of
from tests.live.scattered import Sent, scattered, what_is_sent
from tests.processes import AgentProcess

EXAMPLES = ROOT / "helm" / "compose" / "collector"
UNKEYED = [EXAMPLES / "collector.yaml"]
KEYED = [*UNKEYED, EXAMPLES / "keyed.yaml"]
ENCODINGS = ("otlp_proto", "otlp_json")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
# Who puts batches together: the sending queue, as in our examples, or a processor.
PROCESSORS: dict[str, dict[str, Any]] = {
    "queue": {},
    "batch": {"timeout": "500ms", "send_batch_size": 40, "send_batch_max_size": 60},
    "groupbytrace": {"wait_duration": "3s", "num_traces": 10_000},
}
PARTITIONS = 3
LARGEST = 8_000_000
"""Bytes of one record, for ways that do not bound their batches by bytes."""
SETTLE_SECONDS = 120.0
STILL_SECONDS = 3.0
_EVER = datetime(2000, 1, 1, tzinfo=UTC)
Settings = dict[str, Any]


class Way(NamedTuple):
    """One way to write topics."""

    batches: str
    keyed: bool
    encoding: str
    compression: str

    def __str__(self) -> str:
        key = "by trace" if self.keyed else "none"
        return f"{self.batches:14}{key:10}{self.encoding:12}{self.compression:8}"


class Found(NamedTuple):
    """What a reader finds in the end: requests by trace id, traces with a thumb, dead letters."""

    received: dict[str, float]
    totals: Settings
    requests: dict[str, StoredRequest]
    signals: list[str]
    letters: list[str]


def ways() -> Iterator[Way]:
    """Yield all combinations with the batches of our examples, and some with other batches."""
    for encoding in ENCODINGS:
        for keyed in (False, True):
            for compression in COMPRESSIONS:
                yield Way("queue", keyed, encoding, compression)
    for batches in ("batch", "groupbytrace"):
        yield Way(batches, False, "otlp_proto", "zstd")
        yield Way(batches, True, "otlp_json", "gzip")


def overlay_of(way: Way, topics: Settings, broker: Broker) -> Settings:
    """Return what differs from our examples for this way."""
    signals = {
        kind: {"topic": topics[kind], "encoding": way.encoding} for kind in ("traces", "logs")
    }
    kafka: Settings = {
        "brokers": [broker.address],
        "producer": {"compression": way.compression},
        **signals,
    }
    if isinstance(broker, SmallBroker):  # does not understand the first message of newer ones
        kafka["protocol_version"] = "3.9.0"
    overlay: Settings = {"exporters": {"kafka": kafka}}
    if way.batches != "queue":
        kafka["sending_queue"] = {"batch": None}
        kafka["producer"]["max_message_bytes"] = LARGEST  # processors count spans, not bytes
        overlay["processors"] = {way.batches: PROCESSORS[way.batches]}
        overlay["service"] = {"pipelines": {"traces": {"processors": [way.batches]}}}
    return overlay


def agent_config(source: Settings | None) -> Settings:
    """Return the configuration of an agent; captured traces are kept, however old they are."""
    config: Settings = {
        "assembler": {"quiet_seconds": 2.0, "rootless_seconds": 4.0},
        "store": {"retention_weeks": 5000},
    }
    return config | ({"source": {"kafka": source}} if source else {})


def found_directly(sent: Sent, folder: Path) -> Found:
    """Send all to an agent, each trace whole."""
    with AgentProcess(folder, agent_config(None)) as agent:
        with httpx.Client(base_url=agent.urls["otlp_http"], trust_env=False) as client:
            for path, bodies, kind in (
                ("v1/traces", sent.traces, "application/x-protobuf"),
                ("v1/logs", sent.logs, "application/x-protobuf"),
                ("v1/signals", sent.signals, "application/json"),
            ):
                for body in bodies:
                    answer = client.post(path, content=body, headers={"content-type": kind})
                    answer.raise_for_status()
        return settled(agent, sent, "http", lambda totals: totals["requests"] > 0)


def found_by_kafka(way: Way, sent: Sent, wanted: int, broker: Broker, folder: Path) -> Found:
    """Send all to a Collector and read its topics, while it writes them.

    Raises:
        RuntimeError: the Collector did not start, or logged an error.
    """
    topics = {kind: f"{kind}-{folder.name}" for kind in ("traces", "logs", "signals")}
    brokers = Brokers([broker.address], KafkaSecurityConfig(), None)
    brokers.make_topics(
        topics.values(),
        partitions=PARTITIONS,
        replication=None,
        settings={"max.message.bytes": str(LARGEST)},
    )
    source = {
        "brokers": [broker.address],
        "session_seconds": broker.session_seconds,
        "keyed": way.keyed,
        **topics,
    }
    overlay = overlay_of(way, topics, broker)
    traces, logs = scattered(sent)
    with (
        AgentProcess(folder, agent_config(source)) as agent,
        OtelCollector(folder, KEYED if way.keyed else UNKEYED, overlay) as collector,
    ):
        collector.send("v1/traces", traces)
        collector.send("v1/logs", logs)
        write_signals(broker, topics["signals"], sent.signals, way.compression)
        found = settled(agent, sent, "kafka", lambda totals: totals["requests"] >= wanted)
        if complaints := collector.complaints():
            raise RuntimeError(f"the Collector: {complaints[0]}")
        return found


def write_signals(broker: Broker, topic: str, signals: list[bytes], compression: str) -> None:
    """Write signals as an application does."""
    producer = KafkaProducer(
        bootstrap_servers=[broker.address],
        compression_type=None if compression == "none" else compression,
    )
    for signal in signals:
        producer.send(topic, value=signal)
    producer.flush()
    producer.close()


def settled(
    agent: AgentProcess, sent: Sent, transport: str, enough: Callable[[Settings], bool]
) -> Found:
    """Wait until all has come and nothing changes any more, or for long enough; then stop."""
    expected = {"spans": sent.spans, "log_records": sent.records, "signals": len(sent.signals)}
    before: tuple[Settings, Settings] | None = None
    now = time.monotonic()
    deadline, still_since = now + SETTLE_SECONDS, now
    while True:
        received, totals = received_by(agent, transport), agent.totals()
        now = time.monotonic()
        there = all(received[kind] >= expected[kind] for kind in expected) and enough(totals)
        if (received, totals) != before or not there or totals["waiting"]:
            still_since = now
        if now - still_since > STILL_SECONDS or now > deadline:
            break
        before = received, totals
        time.sleep(0.3)
    agent.stop()
    requests, signals = asyncio.run(_stored(agent.data_dir, sent.trace_ids))
    letters = [letter.reason for letter in DeadLetterFile(agent.data_dir).read()]
    return Found(received, totals, requests, signals, letters)


def received_by(agent: AgentProcess, transport: str) -> dict[str, float]:
    """Return how many spans, log records and signals an agent counts."""
    text = httpx.get(agent.urls["metrics"], trust_env=False).text

    def total(name: str, labels: str) -> float:
        pattern = rf"^groundwatch_{name}_received_total{{[^}}]*{labels}[^}}]*}} (\S+)$"
        return sum(map(float, re.findall(pattern, text, re.MULTILINE)))

    by_transport = f'transport="{transport}"'
    return {
        "spans": total("spans", by_transport),
        "log_records": total("log_records", by_transport),
        "signals": total("signals", 'kind="thumbs_down"'),
    }


async def _stored(
    data_dir: Path, trace_ids: list[str]
) -> tuple[dict[str, StoredRequest], list[str]]:
    url = f"chdb://{data_dir / 'clickhouse'}"
    store = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    try:
        rows = await store.requests(trace_ids)
        signals = await store.complaints(list(rows.values()), _EVER)
    finally:
        await store.close()
    given = sorted(signal.trace_id or "" for signal in signals if signal.kind == "thumbs_down")
    return {trace_id: _comparable(row) for trace_id, row in rows.items()}, given


def _comparable(row: StoredRequest) -> StoredRequest:
    """Return a record without what depends on when its spans came, and in which order."""
    decision = msgspec.structs.replace(row.decision, decided_at=_EVER)
    spans = sorted(row.span_ids)
    return msgspec.structs.replace(row, version=0, decision=decision, span_ids=spans)


def faults_of(found: Found, direct: Found) -> list[str]:
    """Return how what was read differs from what was sent directly."""
    faults = [
        f"{counted} {kind} received, not {direct.received[kind]:.0f}"
        for kind, counted in found.received.items()
        if counted != direct.received[kind]
    ]
    faults += [
        f"{key}: {found.totals[key]}, not {direct.totals[key]}"
        for key in ("requests", "eligible", "judged", "ineligible", "accounting_ok")
        if found.totals[key] != direct.totals[key]
    ]
    differing = [
        trace_id
        for trace_id in direct.requests.keys() | found.requests.keys()
        if found.requests.get(trace_id) != direct.requests.get(trace_id)
    ]
    faults += [f"the record of trace {trace_id} differs" for trace_id in sorted(differing)]
    if found.signals != direct.signals:
        faults.append(f"{len(found.signals)} signals on requests, not {len(direct.signals)}")
    return faults + [f"set aside: {reason}" for reason in found.letters]


def main() -> int:
    """Print a line for each way; 1 where anything is lost, doubled or read otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="words that the line of a way must hold")
    words = parser.parse_args().only.split()
    wrong = 0
    for name, configs in (("collector.yaml", UNKEYED), ("keyed.yaml", KEYED)):
        fault = fault_of(configs)
        wrong += bool(fault)
        print(f"helm/compose/collector/{name}: {fault or 'valid'}", flush=True)
    sent = what_is_sent()
    chosen = [way for way in ways() if all(word in str(way) for word in words)]
    with tempfile.TemporaryDirectory() as name, a_broker(Path(name) / "broker") as broker:
        direct = found_directly(sent, _made(Path(name) / "direct"))
        print(
            f"{sent.spans} spans of {len(sent.trace_ids)} traces, {sent.records} log records, "
            f"{len(sent.signals)} signals; directly {len(direct.requests)} requests\n\n"
            f"{'batches by':14}{'key':10}{'encoding':12}{'compressed':12}",
            flush=True,
        )
        for number, way in enumerate(chosen):
            folder = _made(Path(name) / str(number))
            try:
                found = found_by_kafka(way, sent, len(direct.requests), broker, folder)
                faults = faults_of(found, direct)
            except RuntimeError as err:
                faults = [str(err)]
            wrong += bool(faults)
            print(f"{way}  {'all right' if not faults else 'WRONG'}", flush=True)
            for fault in faults[:5]:
                print(f"    {fault}", flush=True)
    print(f"\n{len(chosen)} ways on {type(broker).__name__}, {wrong} wrong")
    return 1 if wrong else 0


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
