"""The configuration: one YAML file, secrets from the environment, everything with a default.

Read here and nowhere else. All problems are reported at once, each by its key path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from collector.config_evaluation import EvaluationConfig
from collector.config_kafka import KafkaJournalConfig, KafkaSourceConfig
from collector.config_review import ReviewConfig
from collector.errors import ConfigError

_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")


def _address(value: str) -> str:
    match = _ADDRESS.fullmatch(value)
    if match is None:
        raise ValueError("must be host:port, such as 127.0.0.1:4317")
    if int(match[1]) > 65535:
        raise ValueError(f"there is no port {match[1]}; the highest is 65535")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""host:port; a port of 0 lets the system choose one."""


def _store_url(value: str) -> str:
    """Check the form of a store's URL; the message leaves the URL out, it may hold a password."""
    scheme, _, rest = value.partition(":")
    if scheme == "chdb":
        if not re.fullmatch(r"///[^/?][^?]*", rest):
            raise ValueError(
                "chdb needs an absolute folder, with three slashes and without a question mark, "
                "such as chdb:///var/lib/groundwatch"
            )
        return value
    if scheme not in ("http", "https"):
        raise ValueError("must start with chdb:///, http:// or https://")
    try:
        parts = urlsplit(value)
        usable = parts.hostname and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            f"must be {scheme}://user:password@host:port/database; write / ? # @ : in a password "
            "as %2F %3F %23 %40 %3A"
        )
    return value


MIB = 1024 * 1024


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ListenConfig(_Section):
    """Addresses to listen on. Loopback unless you say otherwise."""

    otlp_grpc: Address = Field("127.0.0.1:4317", description="OTLP/gRPC for traces and logs")
    otlp_http: Address = Field("127.0.0.1:4318", description="OTLP/HTTP and /v1/signals")
    metrics: Address = Field("127.0.0.1:9464", description="Prometheus /metrics")
    review: Address = Field("127.0.0.1:8088", description="review page, JSON API, health checks")


FeedbackScale = Literal["thumbs", "comment", "-1..1", "0..1", "1..5", "1..10", "0..10"]
"""How to read a score by its name: as a thumb, a comment, or a rating on that scale."""

Origin = Annotated[str, Field(pattern=r"^(\*|https?://[^/\s]+)$")]
"""What a browser sends as Origin: scheme, host and port, or * for any."""


class ReceiveConfig(_Section):
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


class JournalConfig(_Section):
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


class SourceConfig(_Section):
    """What telemetry is fetched from, beside what is sent to us."""

    kafka: KafkaSourceConfig | None = Field(
        None, description="read topics that an OpenTelemetry Collector writes"
    )


class AssemblerConfig(_Section):
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


class SamplingConfig(_Section):
    """Which requests are judged."""

    rate: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of requests that is judged; with a budget only what to expect at first",
    )
    budget_per_day: int | None = Field(
        None, ge=1, description="judgements a UTC day, spread over its requests; null: fixed rate"
    )
    floor: float = Field(
        0.001, gt=0, le=1, description="lowest share that is judged, also when the budget is spent"
    )
    signal_rate: float = Field(
        1.0,
        ge=0,
        le=1,
        description="share of requests with a signal that says no that is judged, if above rate; "
        "with a budget at most four times the share of others",
    )
    review_per_day: int = Field(
        0,
        ge=0,
        description="judgements a day of the worst conversations, for the review only",
    )
    salt: str = Field(
        "groundwatch-1", min_length=1, description="salt of the sampling hash; stored by its name"
    )


class AlertsConfig(_Section):
    """When someone is paged."""

    faithfulness: float = Field(
        0.9,
        gt=0,
        lt=1,
        description="mean faithfulness to keep, below that of the worst usual hour",
    )
    segments: dict[str, Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=dict, description="the same for single segments, by name"
    )
    false_page_days: float = Field(
        24.0,
        ge=1,
        description="days between false pages over all segments, were they right at that mean",
    )
    hold_hours: float = Field(
        12.0, gt=0, description="how long a page lasts after the last alarm behind it"
    )
    settle_seconds: float = Field(
        300.0,
        ge=1,
        description="then a decision is surely in the store; shorter only to try it out",
    )


class StoreConfig(_Section):
    """Where requests, signals and judgements are kept."""

    url: Annotated[str, AfterValidator(_store_url)] | None = Field(
        None,
        description="chdb:///abs/dir or http(s)://host:port/db; default: data_dir/clickhouse",
        repr=False,
    )
    password_env: str | None = Field(
        None, description="environment variable with the password of the user in url"
    )
    content: Literal["full", "redacted", "none"] = Field(
        "full", description="keep texts as sent, with personal data masked, or not at all"
    )
    late_spans_hours: int = Field(
        48, ge=1, description="how long raw spans are kept so that late ones can be merged"
    )
    retention_weeks: int = Field(13, ge=1, description="whole weeks kept before they are dropped")
    flush_rows: int = Field(500, ge=1, le=10_000, description="requests written in one batch")

    @model_validator(mode="after")
    def _password_has_a_user(self) -> StoreConfig:
        if self.password_env is not None:
            parts = urlsplit(self.url or "")
            if not parts.username or parts.password is not None:
                raise ValueError(
                    "password_env: needs a url with a user and no password, such as "
                    "https://user@host:port/database"
                )
        return self

    def opened_with(self, password: SecretStr) -> StoreConfig:
        """Return the same with the password of the user put into the URL."""
        before, _, after = (self.url or "").partition("@")
        url = f"{before}:{quote(password.get_secret_value(), safe='')}@{after}"
        return self.model_copy(update={"url": url})

    @field_serializer("url")
    def _masked(self, url: str | None) -> str | None:
        """Print the URL without its password."""
        return url and re.sub(r"//([^/@:]*):[^/]*@", r"//\1:***@", url)


class PriceConfig(_Section):
    """US dollars per million tokens of one model."""

    input_usd_per_mtok: float = Field(ge=0, description="uncached input tokens")
    cached_input_usd_per_mtok: float | None = Field(
        None, ge=0, description="cached input tokens; default: as uncached"
    )
    output_usd_per_mtok: float = Field(ge=0, description="output tokens")


class EndpointConfig(_Section):
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


class OpenAIConfig(_Section):
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
        None, gt=0, description="US dollars spent in a UTC day; then judgements wait for the next"
    )
    spend_file: Path | None = Field(
        None,
        description="file that counts the money; agents of one machine that name the same file "
        "share the budget; default: data_dir/spend.sqlite",
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


class ScorerConfig(_Section):
    """A scorer beside faithfulness."""

    rate: float = Field(gt=0, le=1, description="share of the requests it applies to")
    engine: Engine | None = Field(None, description="who judges; default: judge.engine")


class SecondJudgeConfig(_Section):
    """Another model that judges faithfulness of a part of what the first one judges."""

    rate: float = Field(gt=0, le=1, description="share of what is judged that is judged twice")
    model: str = Field(min_length=1, description="its model; prices are those of judge.openai")
    base_url: str | None = Field(
        None, description="its endpoint; null: those of judge.openai, whose limits hold by model"
    )
    api_key_env: str | None = Field(
        None, description="environment variable with the key of that base_url"
    )


class JudgeConfig(_Section):
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
    def needs_golds(self) -> bool:
        """Whether any scorer looks questions up in the golden set."""
        return any(name in self.scorers for name in _GOLDEN_SCORERS)

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


class SegmentRule(_Section):
    """Puts a request into a segment. The first rule that matches decides."""

    name: str = Field(min_length=1, max_length=60, description="the segment")
    attribute: str | None = Field(None, description="span or resource attribute to look at")
    equals: str | None = Field(None, description="value the attribute must have")
    question_matches: str | None = Field(None, description="regular expression on the question")

    @model_validator(mode="after")
    def _says_what_to_match(self) -> SegmentRule:
        if (self.attribute is None) == (self.question_matches is None):
            raise ValueError("give either attribute or question_matches")
        if self.equals is not None and self.attribute is None:
            raise ValueError("equals needs attribute")
        try:
            re.compile(self.question_matches or "")
        except re.error as err:
            raise ValueError(f"question_matches is not a regular expression: {err}") from err
        return self


class SegmentsConfig(_Section):
    """Segments of traffic. Without a rule that matches, built-in kinds of questions are used."""

    rules: list[SegmentRule] = Field(default_factory=list, description="rules, first match wins")
    max_segments: int = Field(
        50, ge=2, le=1000, description="distinct segments; later ones are counted as other"
    )


class ImplicitConfig(_Section):
    """Signals inferred from what users do next: asking again, pushing back, giving up."""

    enabled: bool = Field(
        default=True, description="infer signals by comparing the turns of each conversation"
    )
    quiet_minutes: float = Field(
        30.0, gt=0, description="silence after which a conversation counts as left"
    )
    long_wait_seconds: float = Field(
        30.0, gt=0, description="latency that counts as a reason to leave"
    )


class Config(_Section):
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
        if self.judge.needs_golds and self.review.golden_file is None:
            names = ", ".join(name for name in _GOLDEN_SCORERS if name in self.judge.scorers)
            raise ValueError(f"judge.scorers: {names} needs review.golden_file")
        return self

    @property
    def store_url(self) -> str:
        """The store's URL, the embedded one below `data_dir` where none is given."""
        return self.store.url or f"chdb://{(self.data_dir / 'clickhouse').resolve()}"


class Secrets(_Section):
    """What comes from the environment only. Printed masked."""

    judge_keys: dict[str, SecretStr] = {}
    """Keys of the judge's endpoints, by environment variable."""
    ingest_token: SecretStr | None = None
    store_password: SecretStr | None = None
    kafka_journal_password: SecretStr | None = None
    kafka_source_password: SecretStr | None = None


class Resolved(_Section):
    """A checked configuration with its secrets."""

    config: Config
    secrets: Secrets


def load(
    path: Path | None, environ: Mapping[str, str] | None = None, *, need_secrets: bool = True
) -> Resolved:
    """Read, check and resolve the configuration.

    Args:
        path: the YAML file; None for all defaults. A relative `data_dir` starts at its folder.
        environ: where secrets are looked up; the process environment by default.
        need_secrets: False for what only reads the store: a secret that is not set is None then.

    Raises:
        ConfigError: with every problem found, each by its key path.
    """
    environ = os.environ if environ is None else environ
    raw = _read_yaml(path) if path is not None else {}
    problems: list[str] = []
    config: Config | None = None
    try:
        config = Config.model_validate(raw)
    except ValidationError as err:
        problems = [_describe(problem) for problem in err.errors()]
    missing: list[str] = []
    secrets = _secrets(raw, environ, missing)
    if need_secrets:
        problems += missing
    if config is None or problems:
        raise ConfigError(problems)
    if secrets.store_password is not None:
        store = config.store.opened_with(secrets.store_password)
        config = config.model_copy(update={"store": store})
    if path is not None:
        data_dir = path.absolute().parent / config.data_dir
        config = config.model_copy(update={"data_dir": data_dir})
    return Resolved(config=config, secrets=secrets)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        raw = YAML(typ="safe", pure=True).load(path)
    except OSError as err:
        raise ConfigError([f"{path}: cannot be read: {err.strerror}"]) from err
    except YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise ConfigError([f"{path}{where}: not YAML: {getattr(err, 'problem', err)}"]) from err
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError([f"{path}: must hold keys and values, not a {type(raw).__name__}"])
    return raw


def _describe(problem: ErrorDetails) -> str:
    path = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = "unknown key; see the configuration table in the README"
    return f"{path}: {message}" if path else message


def _secrets(raw: Mapping[str, Any], environ: Mapping[str, str], problems: list[str]) -> Secrets:
    """Look the secrets up, also when the rest is wrong, so that all is reported at once."""

    def section(value: Any, key: str) -> Mapping[str, Any]:
        inner = value.get(key) if isinstance(value, Mapping) else None
        return inner if isinstance(inner, Mapping) else {}

    found: dict[str, SecretStr] = {}
    judge_keys: dict[str, SecretStr] = {}
    judge = section(raw, "judge")
    keys = _judge_keys(section(judge, "openai")) if _asks_a_model(judge) else {}
    if (name := section(judge, "second").get("api_key_env")) is not None:
        keys["judge.second.api_key_env"] = str(name)
    for path, name in keys.items():
        if key := environ.get(name):
            judge_keys[name] = SecretStr(key)
        else:
            problems.append(
                f"{path}: the environment variable {name} is not set; "
                "set it, or set the key to null for an endpoint that wants none"
            )
    token_env = section(raw, "receive").get("ingest_token_env")
    if token_env is not None:
        if token := environ.get(str(token_env)):
            found["ingest_token"] = SecretStr(token)
        else:
            problems.append(
                f"receive.ingest_token_env: the environment variable {token_env} is not set"
            )
    password_env = section(raw, "store").get("password_env")
    if password_env is not None:
        if password := environ.get(str(password_env)):
            found["store_password"] = SecretStr(password)
        else:
            problems.append(
                f"store.password_env: the environment variable {password_env} is not set"
            )
    for part in ("journal", "source"):
        security = section(section(section(raw, part), "kafka"), "security")
        password_env = security.get("sasl_password_env")
        if password_env is None:
            continue
        if password := environ.get(str(password_env)):
            found[f"kafka_{part}_password"] = SecretStr(password)
        else:
            problems.append(
                f"{part}.kafka.security.sasl_password_env: the environment variable "
                f"{password_env} is not set"
            )
    return Secrets(**found, judge_keys=judge_keys)


def _asks_a_model(judge: Mapping[str, Any]) -> bool:
    """Say whether judge.openai is used, of a configuration that may be wrong elsewhere."""
    scorers, second = judge.get("scorers"), judge.get("second")
    engines = (
        [scorer.get("engine") for scorer in scorers.values() if isinstance(scorer, Mapping)]
        if isinstance(scorers, Mapping)
        else []
    )
    elsewhere = isinstance(second, Mapping) and second.get("base_url") is None
    return "openai" in (judge.get("engine"), *engines) or elsewhere


def _judge_keys(openai: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables with keys of endpoints, by the key path that names each."""
    own = openai.get("endpoints")
    endpoints = [e for e in own if isinstance(e, Mapping)] if isinstance(own, list) else []
    named = {
        f"judge.openai.endpoints.{number}.api_key_env": endpoint["api_key_env"]
        for number, endpoint in enumerate(endpoints)
        if "api_key_env" in endpoint
    }
    if len(named) < len(endpoints) or not endpoints:
        named["judge.openai.api_key_env"] = openai.get("api_key_env", "OPENAI_API_KEY")
    return {path: str(name) for path, name in named.items() if name is not None}
