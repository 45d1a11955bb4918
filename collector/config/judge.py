"""The part of the configuration that concerns judges: engines, endpoints, prices, scorers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from collector.config.section import Section


class PriceConfig(Section):
    """US dollars per million tokens of one model."""

    input_usd_per_mtok: float = Field(ge=0, description="uncached input tokens")
    cached_input_usd_per_mtok: float | None = Field(
        None, ge=0, description="cached input tokens; default: as uncached"
    )
    output_usd_per_mtok: float = Field(ge=0, description="output tokens")


class EndpointConfig(Section):
    """One of several endpoints that serve the same model. What is left out is as in `openai`."""

    base_url: str = Field(min_length=1, description="base URL of the endpoint")
    model: str | None = Field(None, min_length=1, description="what the same model is called there")
    api_key_env: str | None = Field(
        None, description="environment variable with its key; null: none is sent"
    )
    weight: float = Field(
        1.0, ge=0, description="its share of the calls; 0: only while all others are down"
    )
    requests_per_minute: int | None = Field(None, ge=1, description="calls sent in any minute")
    tokens_per_minute: int | None = Field(None, ge=1, description="tokens used in any minute")


class OpenAIConfig(Section):
    """The endpoint of the `openai` engine; any server that speaks its API."""

    base_url: str = Field("https://api.openai.com/v1", description="base URL of the endpoint")
    endpoints: list[EndpointConfig] = Field(
        default_factory=list,
        description="several endpoints in place of base_url, each with base_url and, where they "
        "differ, model, api_key_env, weight, requests_per_minute, tokens_per_minute",
    )
    model: str = Field("gpt-4o-mini", min_length=1, description="model that judges")
    api_key_env: str | None = Field(
        "OPENAI_API_KEY", description="environment variable with the key; null: none is sent"
    )
    timeout_seconds: float = Field(60.0, gt=0, description="time-out of one call")
    deadline_seconds: float = Field(
        300.0, gt=0, description="time for one judgement with all its retries"
    )
    max_retries: int = Field(4, ge=0, le=20, description="retries after 429, 5xx and time-outs")
    batch: bool = Field(
        default=False,
        description="ask by the Batch API: half the price, answers within a day for each of the "
        "two calls of a judgement",
    )
    max_input_tokens: int = Field(
        100_000, ge=1000, description="context window kept for one call; longer is split"
    )
    requests_per_minute: int | None = Field(
        None, ge=1, description="calls sent in any minute; default: as many as are answered"
    )
    tokens_per_minute: int | None = Field(
        None, ge=1, description="tokens used in any minute; default: no limit"
    )
    prices: dict[str, PriceConfig] = Field(
        default_factory=dict, description="price table by model; no entry: cost unknown"
    )
    daily_budget_usd: float | None = Field(
        None,
        gt=0,
        description="US dollars spent in a UTC day by all that share the record of spend; then "
        "judgements wait for the next day",
    )
    spend_file: Path | None = Field(
        None,
        description="file that records the spend, on a local disk, for agents of one machine that "
        "name the same; default: the ClickHouse server of store.url, else data_dir/spend.sqlite",
    )

    @field_validator("spend_file")
    @classmethod
    def _means_the_same_to_all(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError("give the whole path, such as /var/lib/groundwatch/spend.sqlite")
        return value

    @model_validator(mode="after")
    def _one_way_to_name_endpoints(self) -> OpenAIConfig:
        given = {"base_url", "endpoints"} & self.model_fields_set
        if self.endpoints and "base_url" in given:
            raise ValueError("endpoints: replaces base_url; give one of the two")
        if self.batch and len(self.endpoints) > 1:
            raise ValueError("batch: works with one endpoint only")
        if self.endpoints and not any(endpoint.weight for endpoint in self.endpoints):
            raise ValueError("endpoints: at least one needs a weight above 0")
        return self

    @model_validator(mode="after")
    def _a_budget_needs_prices(self) -> OpenAIConfig:
        if self.daily_budget_usd is not None:
            for endpoint in self.served_by:
                if endpoint.model not in self.prices:
                    raise ValueError(
                        f"daily_budget_usd: the price of {endpoint.model} is not known; "
                        "add it to judge.openai.prices"
                    )
        return self

    @property
    def served_by(self) -> list[EndpointConfig]:
        """All endpoints, each complete; the one at `base_url` where no list is given."""
        shared = {
            "model": self.model,
            "api_key_env": self.api_key_env,
            "requests_per_minute": self.requests_per_minute,
            "tokens_per_minute": self.tokens_per_minute,
        }
        if not self.endpoints:
            return [EndpointConfig(base_url=self.base_url, **shared)]
        return [
            EndpointConfig(**{**shared, **endpoint.model_dump(exclude_unset=True)})
            for endpoint in self.endpoints
        ]


ScorerName = Literal[
    "answer_relevance",
    "context_precision",
    "context_sufficiency",
    "citation_support",
    "refusal",
    "correctness",
    "context_recall",
]
Engine = Literal["lexical", "openai"]
_LOCAL_SCORERS = ("citation_support", "refusal", "correctness", "context_recall")
_GOLDEN_SCORERS = ("correctness", "context_recall")


class ScorerConfig(Section):
    """A scorer beside faithfulness."""

    rate: float = Field(gt=0, le=1, description="share of the requests it applies to")
    engine: Engine | None = Field(None, description="who judges; default: judge.engine")


class SecondJudgeConfig(Section):
    """Another model that judges faithfulness of a part of what the first one judges."""

    rate: float = Field(gt=0, le=1, description="share of what is judged that is judged twice")
    model: str = Field(min_length=1, description="its model; prices are those of judge.openai")
    base_url: str | None = Field(
        None, description="its endpoint; null: those of judge.openai, whose limits hold by model"
    )
    api_key_env: str | None = Field(
        None, description="environment variable with the key of that base_url"
    )


class JudgeConfig(Section):
    """Who judges, and how much of it at once."""

    engine: Engine = Field(
        "lexical", description="lexical: free and local; openai: a language model"
    )
    concurrency: int = Field(4, ge=1, le=256, description="judgements under way at once")
    max_wait_hours: float = Field(
        48.0,
        gt=0,
        description="how long a judgement may wait for an endpoint that is down or for the next "
        "day's budget before it counts as failed",
    )
    openai: OpenAIConfig = OpenAIConfig()
    scorers: dict[ScorerName, ScorerConfig] = Field(
        default_factory=dict,
        description="scorers beside faithfulness, each with its rate and, where it differs, engine",
    )
    second: SecondJudgeConfig | None = Field(
        None, description="another model that judges a part of the same answers again"
    )

    @model_validator(mode="after")
    def _some_need_a_model(self) -> JudgeConfig:
        for name, scorer in self.scorers.items():
            local = name in _LOCAL_SCORERS
            if self.engine_of(name) == "lexical" and not local:
                raise ValueError(f"scorers.{name}: needs a model; set its engine to openai")
            if scorer.engine == "openai" and name == "context_recall":
                raise ValueError(f"scorers.{name}: needs no model; leave its engine out")
        return self

    @model_validator(mode="after")
    def _a_budget_needs_the_second_price(self) -> JudgeConfig:
        known = self.openai.prices if self.openai.daily_budget_usd is not None else None
        if self.second is not None and known is not None and self.second.model not in known:
            raise ValueError(
                f"second.model: the price of {self.second.model} is not known; "
                "add it to judge.openai.prices"
            )
        return self

    def engine_of(self, scorer: ScorerName) -> Engine:
        """Return who judges for a scorer."""
        if scorer == "context_recall":
            return "lexical"
        return self.scorers[scorer].engine or self.engine

    @property
    def golden_scorers(self) -> list[str]:
        """The scorers that look questions up in the golden set."""
        return [name for name in _GOLDEN_SCORERS if name in self.scorers]

    @property
    def asks_a_model(self) -> bool:
        """Whether anything is judged by a model."""
        engines = {self.engine, *map(self.engine_of, self.scorers)}
        return "openai" in engines or self.second is not None

    @property
    def second_openai(self) -> OpenAIConfig | None:
        """Return how the second judge is asked, None where there is none."""
        if self.second is None:
            return None
        changes: dict[str, Any] = {"model": self.second.model, "batch": False}
        if self.second.base_url is None:
            changes["endpoints"] = [
                one.model_copy(update={"model": self.second.model}) for one in self.openai.endpoints
            ]
        else:
            changes |= {
                "base_url": self.second.base_url,
                "endpoints": [],
                "api_key_env": self.second.api_key_env,
            }
        return self.openai.model_copy(update=changes)
