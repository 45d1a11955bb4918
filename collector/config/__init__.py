"""The configuration: one YAML file, secrets from the environment, everything with a default.

Read here and nowhere else. All problems are reported at once, each by its key path. A module
holds the sections of one subject; `whole` puts them together and `load` reads them.
"""

from collector.config.evaluation import GateConfig, ResponseConfig, TargetConfig
from collector.config.intake import (
    AssemblerConfig,
    FeedbackScale,
    JournalConfig,
    ListenConfig,
    ReceiveConfig,
)
from collector.config.judge import EndpointConfig, OpenAIConfig, PriceConfig, ScorerName
from collector.config.kafka import KafkaJournalConfig, KafkaSecurityConfig, KafkaSourceConfig
from collector.config.load import load
from collector.config.monitoring import (
    AlertsConfig,
    ImplicitConfig,
    SamplingConfig,
    SegmentRule,
    SegmentsConfig,
)
from collector.config.review import ReviewConfig
from collector.config.store import StoreConfig
from collector.config.whole import Config, Resolved, Secrets

__all__ = [
    "AlertsConfig",
    "AssemblerConfig",
    "Config",
    "EndpointConfig",
    "FeedbackScale",
    "GateConfig",
    "ImplicitConfig",
    "JournalConfig",
    "KafkaJournalConfig",
    "KafkaSecurityConfig",
    "KafkaSourceConfig",
    "ListenConfig",
    "OpenAIConfig",
    "PriceConfig",
    "ReceiveConfig",
    "Resolved",
    "ResponseConfig",
    "ReviewConfig",
    "SamplingConfig",
    "ScorerName",
    "Secrets",
    "SegmentRule",
    "SegmentsConfig",
    "StoreConfig",
    "TargetConfig",
    "load",
]
