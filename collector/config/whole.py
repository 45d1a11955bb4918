"""The whole configuration, and what only holds between its sections."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from collector.config.evaluation import EvaluationConfig
from collector.config.intake import (
    AssemblerConfig,
    JournalConfig,
    ListenConfig,
    ReceiveConfig,
    SourceConfig,
)
from collector.config.judge import JudgeConfig
from collector.config.monitoring import (
    AlertsConfig,
    ImplicitConfig,
    SamplingConfig,
    SegmentsConfig,
)
from collector.config.review import ReviewConfig
from collector.config.section import Section
from collector.config.store import StoreConfig


class Config(Section):
    """The whole configuration, resolved and checked."""

    data_dir: Path = Field(
        Path("groundwatch-data"),
        description="folder of the journal and the embedded store; relative to this file",
    )
    listen: ListenConfig = ListenConfig()
    receive: ReceiveConfig = ReceiveConfig()
    source: SourceConfig = SourceConfig()
    journal: JournalConfig = JournalConfig()
    assembler: AssemblerConfig = AssemblerConfig()
    sampling: SamplingConfig = SamplingConfig()
    alerts: AlertsConfig = AlertsConfig()
    store: StoreConfig = StoreConfig()
    judge: JudgeConfig = JudgeConfig()
    segments: SegmentsConfig = SegmentsConfig()
    implicit: ImplicitConfig = ImplicitConfig()
    review: ReviewConfig = ReviewConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    ignore_services: list[str] = Field(
        default_factory=lambda: ["groundwatch"],
        description="service names whose traces are no users' requests, such as test runs",
    )
    message_id_attribute: str | None = Field(
        None, description="span attribute that holds your app's own message id, for signals"
    )
    shutdown_seconds: float = Field(
        4.0, gt=0, description="time budget of a clean stop; what is left waits in the journal"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="how much is logged; texts of users never are"
    )

    @model_validator(mode="after")
    def _addresses_differ(self) -> Config:
        seen: dict[str, str] = {}
        for key, address in self.listen.model_dump().items():
            if not address.endswith(":0") and address in seen:
                raise ValueError(f"listen.{key}: {address} is also listen.{seen[address]}")
            seen[address] = key
        return self

    @model_validator(mode="after")
    def _bodies_fit(self) -> Config:
        if self.receive.max_body_bytes >= self.journal.max_bytes:
            raise ValueError("receive.max_body_bytes: must be below journal.max_bytes")
        return self

    @model_validator(mode="after")
    def _golden_scorers_have_a_file(self) -> Config:
        if (names := ", ".join(self.judge.golden_scorers)) and self.review.golden_file is None:
            raise ValueError(f"judge.scorers: {names} needs review.golden_file")
        return self

    @property
    def store_url(self) -> str:
        """The store's URL, the embedded one below `data_dir` where none is given."""
        return self.store.url or f"chdb://{(self.data_dir / 'clickhouse').resolve()}"


class Secrets(Section):
    """What comes from the environment only. Printed masked."""

    judge_keys: dict[str, SecretStr] = Field(default_factory=dict)
    """Keys of the judge's endpoints, by environment variable."""
    ingest_token: SecretStr | None = None
    store_password: SecretStr | None = None
    kafka_journal_password: SecretStr | None = None
    kafka_source_password: SecretStr | None = None
    review_session_key: SecretStr | None = None
    review_api_token: SecretStr | None = None
    webhook_url: SecretStr | None = None
    mail_password: SecretStr | None = None


class Resolved(Section):
    """A checked configuration with its secrets."""

    config: Config
    secrets: Secrets
