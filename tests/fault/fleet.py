"""All roles as processes of their own on one Kafka, one ClickHouse server and one judging model.

Spans come by both ways at once, in any order: in records of a Collector's topic, spread over its
partitions without keys, and by OTLP/HTTP from a sender that repeats what was not acknowledged.
ClickHouse and the model are behind proxies that can refuse and delay.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import httpx
from kafka import KafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from collector.config import KafkaJournalConfig, KafkaSecurityConfig
from collector.kafka.client import Brokers
from sinks.connection import connect
from sinks.dead_letter_topic import DeadLetterTopic
from sinks.migrate import migrate
from tests.bench.stream import Stream
from tests.fakes.openai_server import OpenAIServer
from tests.fakes.proxy import in_front_of
from tests.kafka_broker import Broker
from tests.processes import AgentProcess

WHOLE = (
    *("receiver", "processor-1", "processor-2", "processor-3"),
    *("judge-1", "judge-2", "reporter", "review"),
)
JUDGED_SHARE = 0.25
RECORDS_A_POST = 4
HEADERS = {"content-type": "application/x-protobuf"}

# What a reader sees of each request, and of each request that was judged.
_STORED = """
SELECT trace_id, length(span_ids), version, sampled AND ineligible IS NULL
FROM requests ORDER BY version DESC LIMIT 1 BY trace_id
"""
_JUDGED = """
SELECT trace_id, count(), argMax(request_version, rank), argMax(status, rank)
FROM (SELECT * FROM judgements ORDER BY rank DESC LIMIT 1 BY trace_id, scorer, fingerprint)
GROUP BY trace_id
"""


class Fleet:
    """The processes, what they stand on and what they were sent. A context manager.

    Args:
        folder: for all that is kept.
        broker: Kafka.
        patience_seconds: how long all that was sent may take to be stored and judged.
        names: of the processes; the role is what stands before the dash.
        partitions: of each topic of the journal.
    """

    def __init__(
        self,
        folder: Path,
        broker: Broker,
        patience_seconds: float,
        names: Sequence[str] = WHOLE,
        partitions: int = 6,
    ) -> None:
        self.broker = broker
        self.processes: dict[str, AgentProcess] = {}
        self.sent: dict[str, int] = {}
        """Spans by trace."""
        self.poison: list[bytes] = []
        self._folder = folder
        self._patience_seconds = patience_seconds
        self._names = names
        self._partitions = partitions
        self.topic = f"otlp_spans-{uuid4()}"
        self._prefix = f"{self.topic}."
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._store_url = opening.enter_context(_clickhouse(self._folder / "clickhouse"))
            model = opening.enter_context(OpenAIServer())
            self.store = opening.enter_context(in_front_of(self._store_url))
            self.model = opening.enter_context(in_front_of(model.base_url))
            with closing(connect(f"{self._store_url}/default", {})) as client:
                migrate(client)
            brokers = Brokers([self.broker.address], KafkaSecurityConfig(), None)
            brokers.make_topics([self.topic], partitions=3, replication=None, settings={})
            opening.callback(self._stop_all)
            with ThreadPoolExecutor() as pool:
                list(pool.map(self.add, self._names))
            self._stack = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, name: str, environ: dict[str, str] | None = None) -> AgentProcess:
        """Start one more process; the role is what stands before the dash of its name."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        role = name.partition("-")[0]
        process = AgentProcess(folder, self._config(), environ, roles=role)
        self.processes[name] = process
        process.start()
        return process

    def remove(self, name: str) -> None:
        """Stop a process for good, in good order."""
        assert self.processes.pop(name).stop() == 0, name

    def restart(self, name: str, away_seconds: float) -> None:
        """Kill a process at once and start it again."""
        self.processes[name].kill()
        time.sleep(away_seconds)
        self.processes[name].start()

    def freeze(self, name: str, seconds: float) -> None:
        """Stop a process where it stands, and let it go on later."""
        process = self.processes[name].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    @contextmanager
    def fed(
        self, stream: Stream, seconds: float, poison_every: int | None = None
    ) -> Iterator[None]:
        """Send all of a stream while the block runs, spread over `seconds` at least.

        Args:
            stream: half of its records go to the topic, the rest is posted.
            seconds: time to take.
            poison_every: after so many records of the topic comes one that nobody can read.
        """
        self.sent |= stream.sizes
        with ThreadPoolExecutor(1) as pool:
            feeding = pool.submit(self._feed, stream, seconds, poison_every)
            yield
            feeding.result()

    def _feed(self, stream: Stream, seconds: float, poison_every: int | None) -> None:
        rng = random.Random(1)
        at_once = 2 * RECORDS_A_POST
        began = time.monotonic()
        written = 0
        with (
            closing(self.producer()) as producer,
            httpx.Client(timeout=30, trust_env=False) as http,
        ):
            for at in range(0, len(stream.records), at_once):
                time.sleep(max(0.0, began + seconds * at / len(stream.records) - time.monotonic()))
                for record in stream.records[at : at + RECORDS_A_POST]:
                    producer.send(self.topic, value=record, partition=rng.randrange(3))
                    written += 1
                    if poison_every and written % poison_every == 0:
                        self.poison.append(b"\x00 poison %d" % len(self.poison))
                        producer.send(self.topic, value=self.poison[-1])
                self._post(http, b"".join(stream.records[at + RECORDS_A_POST : at + at_once]))
            producer.flush()

    def producer(self) -> KafkaProducer:
        """Return a client that writes as a Collector does."""
        return KafkaProducer(
            bootstrap_servers=[self.broker.address], compression_type="zstd", linger_ms=20
        )

    def _post(self, client: httpx.Client, body: bytes) -> None:
        """Send until it is acknowledged."""
        while True:
            url = f"{self.processes['receiver'].urls['otlp_http']}/v1/traces"
            try:
                answer = client.post(url, content=body, headers=HEADERS)
            except httpx.TransportError:
                time.sleep(0.2)
                continue
            if answer.status_code == httpx.codes.OK:
                return
            assert answer.status_code in (429, 503), answer.text
            time.sleep(0.2)

    def wait_until_stored(self) -> None:
        """Wait until all spans sent so far are stored."""
        self._wait_until_none_of(self._left_to_store)

    def _left_to_store(self) -> dict[str, float]:
        stored = {trace_id: spans for trace_id, spans, *_ in self.query(_STORED)}
        return {"traces not whole": self._not_whole(stored)}

    def _wait_until_none_of(self, left: Callable[[], dict[str, float]]) -> None:
        began = time.monotonic()
        while True:
            asked = time.monotonic()
            if not any((what := left()).values()):
                return
            assert asked < began + self._patience_seconds, f"never done: {what}"
            # Asking must not be what keeps the store busy.
            time.sleep(0.2 + 4 * (time.monotonic() - asked))

    def check_all_is_there_once(self) -> None:
        """Wait until nothing is left to do, then check what a reader sees of all sent so far.

        Raises:
            AssertionError: something is missing, doubled or not whole, or it takes too long.
        """
        self._wait_until_none_of(self._left)
        totals = self.processes["review"].totals()
        assert totals["requests"] == len(self.sent)
        assert totals["accounting_ok"]
        assert not any(totals["failed"].values())
        judged = self.query(_JUDGED)
        assert {(times, status) for _, times, _, status in judged} == {(1, "judged")}
        assert totals["judged"] == len(judged) > 0
        for name, process in self.processes.items():
            assert process.process is not None
            assert process.process.poll() is None, f"{name} ended"
            assert sum(series(process, "groundwatch_accounting_difference")) == 0.0, name

    def _left(self) -> dict[str, float]:
        """Return how much there is still to do, by what."""
        left = {
            f"{name}: journal_lag_records": sum(series(process, "groundwatch_journal_lag_records"))
            for name, process in self.processes.items()
        }
        # In this order: what was judged by then is stored by now. While two processors have a
        # trace, each thinking it theirs, a reader may see the part of it that one of them has.
        judged = {trace_id: version for trace_id, _, version, _ in self.query(_JUDGED)}
        stored = {trace_id: rest for trace_id, *rest in self.query(_STORED)}
        drawn = {i: version for i, (_, version, is_drawn) in stored.items() if is_drawn}
        assert not stored.keys() - self.sent.keys(), "stored what was never sent"
        left["traces not whole"] = self._not_whole({i: spans for i, (spans, *_) in stored.items()})
        left["not judged as stored"] = len(drawn.items() - judged.items())
        left["judged but not drawn"] = len(judged.keys() - drawn.keys())
        return left

    def _not_whole(self, stored: Mapping[str, int]) -> int:
        return len(self.sent.items() - stored.items())

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        """Return the rows of a query to ClickHouse itself, not by a proxy."""
        with closing(connect(f"{self._store_url}/default", {})) as client:
            return client.query(sql).result_rows

    def dead_letters(self) -> list[bytes]:
        """Return the bodies of what was set aside."""
        journal = KafkaJournalConfig(brokers=[self.broker.address], topic_prefix=self._prefix)
        with closing(DeadLetterTopic(journal, None, max_body_bytes=1024, bodies=True)) as kept:
            return [letter.record.body for letter in kept.read()]

    def _config(self) -> dict[str, Any]:
        place = {
            "brokers": [self.broker.address],
            "session_seconds": self.broker.session_seconds,
        }
        journal = {"topic_prefix": self._prefix, "partitions": self._partitions}
        topics = {"traces": self.topic, "logs": None, "signals": None}
        model = {
            "base_url": f"http://{self.model.address}/v1",
            "model": "small-judge",
            "api_key_env": None,
            "timeout_seconds": 10,
        }
        return {
            "assembler": {"quiet_seconds": 1.0},
            "journal": {"kafka": place | journal},
            "judge": {"engine": "openai", "concurrency": 16, "openai": model},
            "sampling": {"rate": JUDGED_SHARE},
            "source": {"kafka": place | topics},
            "store": {"url": f"http://{self.store.address}/default"},
        }

    def _stop_all(self) -> None:
        for process in self.processes.values():
            if process.process is not None and process.process.poll() is None:
                process.process.send_signal(signal.SIGCONT)
                process.process.terminate()
        for process in self.processes.values():
            if process.process is not None:
                process.process.wait(60)


def series(process: AgentProcess, name: str) -> list[float]:
    """Return all values that a process exports of a metric."""
    exported = httpx.get(process.urls["metrics"], timeout=60, trust_env=False).text
    return [
        sample.value
        for family in text_string_to_metric_families(exported)
        for sample in family.samples
        if sample.name == name
    ]


@contextmanager
def _clickhouse(folder: Path) -> Iterator[str]:
    """Serve a store in a process of its own; yield its URL without a database."""
    command = [sys.executable, "-m", "tests.fakes.clickhouse_http", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
