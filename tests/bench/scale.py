"""How processors on one Kafka grow, and how long they stand still when one comes or goes.

python -m tests.bench.scale [--spans 20000]

Spans lie scattered over a topic as a Collector writes it. One receiver copies them to the journal,
processors make requests of them and store these in ClickHouse, here the embedded engine behind its
HTTP interface in a process of its own. The floor reads the same topic with the bare client and
parses what it reads, in one process. On Apache Kafka where GROUNDWATCH_KAFKA_LIBS names its jars.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.bench.load import spans_of
from tests.bench.stream import Stream, stream
from tests.fault.fleet import Fleet
from tests.kafka_broker import ApacheKafka, a_broker

COUNTS = (1, 2, 4)
PATIENCE_SECONDS = 1800.0
APART = 500
SPANS_A_PULSE = 60
PULSE_SECONDS = 0.5
USUAL_SECONDS = 15.0
APART_SECONDS = 5.0
FIRST_STORED = """
SELECT trace_id, toUnixTimestamp64Milli(min(stored_at)) / 1000 FROM requests GROUP BY trace_id
"""


class Measured(NamedTuple):
    """Spans a second by the clock, and CPU seconds for a thousand spans."""

    fleet_per_second: float
    floor_per_second: float
    receiver_cpu: float
    processors_cpu: float
    floor_cpu: float

    def row(self, processors: int, one: Measured) -> str:
        """Return one line of the table."""
        return (
            f"{processors:<14}{self.fleet_per_second:9,.0f}"
            f"{self.fleet_per_second / one.fleet_per_second:11.2f}"
            f"{self.floor_per_second:11,.0f}{self.fleet_per_second / self.floor_per_second:10.3f}"
            f"{self.receiver_cpu:14.2f}{self.processors_cpu:15.2f}{self.floor_cpu:11.2f}"
        )


HEAD = (
    f"{'processors':14}{'spans/s':>9}{'times one':>11}{'floor/s':>11}{'of floor':>10}"
    f"{'receiver CPU':>14}{'processor CPU':>15}{'floor CPU':>11}"
)


def roles(processors: int) -> list[str]:
    """Return the processes of a fleet that judges nothing."""
    return ["receiver", *(f"processor-{number + 1}" for number in range(processors))]


def measure(folder: Path, processors: int, spans: int) -> Measured:
    """Have so many processors share as many partitions."""
    sent = stream(spans, seed=processors, apart=APART)
    with (
        a_broker(folder / "broker") as broker,
        Fleet(folder, broker, PATIENCE_SECONDS, roles(processors), processors) as fleet,
    ):
        before = {name: process.cpu_seconds() for name, process in fleet.processes.items()}
        began = time.monotonic()
        with closing(fleet.producer()) as producer:
            write(fleet, producer, sent)
        fleet.wait_until_stored()
        seconds = time.monotonic() - began
        used = {name: p.cpu_seconds() - before[name] for name, p in fleet.processes.items()}
        began, cpu = time.monotonic(), time.process_time()
        read = read_bare(broker.address, fleet.topic, sum(sent.sizes.values()))
        floor, floor_cpu = time.monotonic() - began, time.process_time() - cpu
    receiver = used.pop("receiver")
    thousands = read / 1000
    return Measured(
        read / seconds,
        read / floor,
        receiver / thousands,
        sum(used.values()) / thousands,
        floor_cpu / thousands,
    )


def write(fleet: Fleet, producer: KafkaProducer, sent: Stream) -> None:
    """Write a stream into the topic, its records one after the other to all partitions."""
    fleet.sent |= sent.sizes
    for number, record in enumerate(sent.records):
        producer.send(fleet.topic, value=record, partition=number % 3)
    producer.flush()


def read_bare(address: str, topic: str, spans: int) -> int:
    """Read and parse a topic; return the spans."""
    consumer = KafkaConsumer(bootstrap_servers=[address], auto_offset_reset="earliest")
    read = 0
    with closing(consumer):
        consumer.assign([TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)])
        while read < spans:
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    read += len(spans_of(ExportTraceServiceRequest.FromString(record.value)))
    return read


class Pulse:
    """Sends a few traces again and again, and notes when each was sent."""

    def __init__(self, fleet: Fleet) -> None:
        self.sent_at: dict[str, float] = {}
        self._fleet = fleet
        self._stop = threading.Event()
        self._seed = 0

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Send for as long as the block lasts."""
        thread = threading.Thread(target=self._beat)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _beat(self) -> None:
        with closing(self._fleet.producer()) as producer:  # made while the broker is there
            while not self._stop.wait(PULSE_SECONDS):
                self._seed += 1
                lot = stream(SPANS_A_PULSE, seed=1000 + self._seed)
                self.sent_at |= dict.fromkeys(lot.sizes, time.time())
                write(self._fleet, producer, lot)

    def waits(self, since: float, until: float) -> list[float]:
        """Return how long each trace sent in a span of time took to be stored."""
        stored: dict[str, float] = {i: at for i, at in self._fleet.query(FIRST_STORED)}  # noqa: C416
        return [stored[i] - at for i, at in self.sent_at.items() if since <= at < until]


def measure_standstill(folder: Path) -> list[tuple[str, float]]:
    """Return the longest that a request waited for the store when something comes or goes."""
    with a_broker(folder / "broker") as broker, Fleet(folder, broker, 600, roles(2), 4) as fleet:
        happenings: list[tuple[str, Callable[[], object]]] = [
            ("nothing happens", lambda: None),
            ("a processor joins", lambda: fleet.add("processor-3")),
            ("a processor is stopped", lambda: fleet.remove("processor-3")),
            ("a processor is killed", lambda: fleet.restart("processor-2", away_seconds=0)),
        ]
        if isinstance(broker, ApacheKafka):

            def restart() -> None:
                broker.kill()
                broker.start()

            happenings.append(("the broker is killed and started again", restart))
        pulse = Pulse(fleet)
        windows = []
        with pulse.beating():
            time.sleep(USUAL_SECONDS)
            for _, happen in happenings:
                began = time.time()
                happen()
                time.sleep(USUAL_SECONDS)
                windows.append((began, time.time()))
                time.sleep(APART_SECONDS)  # what is sent now waits for what happens next
        fleet.wait_until_stored()
        return [
            (name, max(pulse.waits(*window)))
            for (name, _), window in zip(happenings, windows, strict=True)
        ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=20_000)
    arguments = parser.parse_args()
    print(
        f"{arguments.spans} spans of 4 kB, those of a trace up to {APART} apart, from a topic to "
        f"ClickHouse; {os.cpu_count()} cores for everything; CPU in seconds for 1,000 spans"
    )
    print(HEAD)
    one: Measured | None = None
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(Path(folder), count, arguments.spans)
        one = one or found
        print(found.row(count, one), flush=True)
    print(f"\n{'longest wait of a request':40}{'seconds':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, seconds in measure_standstill(Path(folder)):
            print(f"{name:40}{seconds:10.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
