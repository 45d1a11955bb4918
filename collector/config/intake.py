"""The part of the configuration that concerns what comes in, up to whole requests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from collector.config.kafka import KafkaJournalConfig, KafkaSourceConfig
from collector.config.section import MIB, Address, Section


class ListenConfig(Section):
    """Addresses to listen on. Loopback unless you say otherwise."""

    otlp_grpc: Address = Field("127.0.0.1:4317", description="OTLP/gRPC for traces and logs")
    otlp_http: Address = Field("127.0.0.1:4318", description="OTLP/HTTP and /v1/signals")
    metrics: Address = Field("127.0.0.1:9464", description="Prometheus /metrics, health checks")
    review: Address = Field("127.0.0.1:8088", description="review page, JSON API, health checks")


FeedbackScale = Literal["thumbs", "comment", "-1..1", "0..1", "1..5", "1..10", "0..10"]
"""How to read a score by its name: as a thumb, a comment, or a rating on that scale."""
Origin = Annotated[str, Field(pattern=r"^(\*|https?://[^/\s]+)$")]
"""What a browser sends as Origin: scheme, host and port, or * for any."""


class ReceiveConfig(Section):
    """Limits and login of the receivers."""

    max_body_bytes: int = Field(
        64 * MIB, ge=1024, description="largest body after decompression; more is answered 413"
    )
    body_seconds: float = Field(
        30.0, gt=0, description="time a sender has for one body; then it is answered 408"
    )
    ingest_token_env: str | None = Field(
        None, description="environment variable with the bearer token that senders must show"
    )
    cors_origins: list[Origin] = Field(
        default_factory=list,
        description="web pages, as https://app.example.com, that may post signals from a browser",
    )
    feedback: dict[str, FeedbackScale] = Field(
        default_factory=dict,
        description="scores of other clients that users give, by name, and how to read them: "
        "thumbs, comment or a scale such as 1..5",
    )


class JournalConfig(Section):
    """The durable journal between receivers and everything else."""

    max_bytes: int = Field(
        4096 * MIB, ge=16 * MIB, description="size at which senders are told to wait (429)"
    )
    min_free_disk_bytes: int = Field(
        256 * MIB, ge=0, description="free disk below which senders are told to wait"
    )
    kafka: KafkaJournalConfig | None = Field(
        None, description="keep the journal on Kafka, which several processes can share"
    )


class SourceConfig(Section):
    """What telemetry is fetched from, beside what is sent to us."""

    kafka: KafkaSourceConfig | None = Field(
        None, description="read topics that an OpenTelemetry Collector writes"
    )


class AssemblerConfig(Section):
    """When a trace is complete, and how much may be open at once."""

    quiet_seconds: float = Field(
        10.0, gt=0, description="silence after the root span ended before a trace is closed"
    )
    rootless_seconds: float = Field(
        120.0, gt=0, description="silence after which a trace without a root is closed as partial"
    )
    max_open_seconds: float = Field(
        1800.0, gt=0, description="time after which a trace that never falls silent is closed"
    )
    max_traces: int = Field(20_000, ge=1, description="open traces; the oldest is closed early")
    max_spans_per_trace: int = Field(
        20_000, ge=1, description="spans kept of one trace; more are counted and dropped"
    )
    max_bytes: int = Field(
        128 * MIB, ge=1 * MIB, description="encoded size of all open traces together"
    )
