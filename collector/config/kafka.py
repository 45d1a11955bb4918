"""The part of the configuration that concerns Kafka: the brokers, the journal, the source."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from collector.config.section import Section

_TOPIC_NAME = r"^[a-zA-Z0-9._-]+$"

TopicName = Annotated[str, Field(pattern=_TOPIC_NAME, max_length=200)]
_BROKER = r"^[A-Za-z0-9_.\[\]:-]+:[0-9]{1,5}$"


def _host_and_port(text: str) -> str:
    if not re.match(_BROKER, text) or not 0 < int(text.rpartition(":")[2]) < 65536:
        raise ValueError("must be host:port, such as kafka-1.example.com:9092")
    return text


Broker = Annotated[
    str,
    AfterValidator(_host_and_port),
    WithJsonSchema({"type": "string", "pattern": _BROKER}),
]
"""host:port of one broker; the others are found through it."""


class KafkaSecurityConfig(Section):
    """How to log in to the brokers."""

    tls: bool = Field(default=False, description="encrypt the connection; true with tls_ca")
    tls_ca: Path | None = Field(
        None, description="file with the CA's certificates; default: those of the system"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; null: no login"
    )
    sasl_user: str | None = Field(None, description="user name of the login")
    sasl_password_env: str | None = Field(
        None, description="environment variable with its password"
    )

    @model_validator(mode="after")
    def _login_is_whole(self) -> KafkaSecurityConfig:
        given = [self.sasl_mechanism, self.sasl_user, self.sasl_password_env]
        if any(given) and not all(given):
            raise ValueError("sasl_mechanism, sasl_user and sasl_password_env: give all or none")
        return self

    @property
    def encrypts(self) -> bool:
        """Whether connections use TLS."""
        return self.tls or self.tls_ca is not None


class KafkaJournalConfig(Section):
    """A journal on Kafka in place of the file, for more than one process."""

    brokers: list[Broker] = Field(min_length=1, description="brokers to start from, as host:port")
    security: KafkaSecurityConfig = KafkaSecurityConfig()
    topic_prefix: TopicName = Field(
        "groundwatch.", description="what the names of its topics and groups start with"
    )
    partitions: int = Field(
        12, ge=1, le=1000, description="of topics that are made; at most as many processes share"
    )
    replication: int | None = Field(
        None, ge=1, description="copies of topics that are made; default: the brokers'"
    )
    retention_hours: float = Field(
        168.0, ge=1, description="of topics that are made: older records go, done or not"
    )
    session_seconds: float = Field(
        45.0, ge=1, description="silence after which another process takes over"
    )
    rebalance_seconds: float = Field(
        20.0, gt=0, description="time budget for finishing what another process takes over"
    )


class KafkaSourceConfig(Section):
    """Topics of an OpenTelemetry Collector, and of applications that write signals."""

    brokers: list[Broker] = Field(min_length=1, description="brokers to start from, as host:port")
    security: KafkaSecurityConfig = KafkaSecurityConfig()
    traces: TopicName | None = Field(
        "otlp_spans", description="topic of the Collector's traces, as otlp_proto or otlp_json"
    )
    logs: TopicName | None = Field("otlp_logs", description="topic of its logs; null: none")
    signals: TopicName | None = Field(
        "rag_signals", description="topic of signals, as posted to /v1/signals; null: none"
    )
    group: TopicName = Field("groundwatch", description="consumer group; processes share the work")
    keyed: bool = Field(
        default=False,
        description="the Collector sets partition_traces_by_id, so a record holds one trace and "
        "needs no splitting",
    )
    max_bad_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="share of unreadable records among the last 100 beyond which reading stops",
    )
    session_seconds: float = Field(
        45.0, ge=1, description="silence after which another process takes over"
    )
    rebalance_seconds: float = Field(
        20.0, gt=0, description="time budget for finishing what another process takes over"
    )

    @model_validator(mode="after")
    def _reads_something(self) -> KafkaSourceConfig:
        topics = [name for name in (self.traces, self.logs, self.signals) if name is not None]
        if not topics:
            raise ValueError("name a topic in traces, logs or signals")
        if len(set(topics)) < len(topics):
            raise ValueError("traces, logs and signals must be different topics")
        return self
