"""The composition root: builds one agent from a configuration, starts and stops it.

Stops in the order in which telemetry flows: receivers refuse, what is open is stored, judgements
that are done are kept, the rest waits in the journal.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, make_asgi_app

from collector import review_stream
from collector.accounting import Accounting
from collector.config import Config, Resolved
from collector.errors import ConfigError, DependencyError, UsageError
from collector.inference import SignalInference
from collector.journal.sqlite import SqliteJournal
from collector.judges import Judges, build_judges, golds_of, open_budget, own_draws, running_judges
from collector.pipeline import LocalScore, Processor
from collector.ports import (
    CONVERSATIONS,
    JUDGE,
    SIGNALS,
    TELEMETRY,
    Consumer,
    Journal,
    Store,
)
from collector.receivers.otlp_grpc import GrpcReceiver
from collector.receivers.otlp_http import build_app
from collector.review_stream import ReviewStream
from collector.server import HttpServer
from collector.signal_writer import SignalWriter
from collector.telemetry import Metrics
from collector.timing import Clock, Deadline, SystemClock
from dashboards.faithfulness_watch import FaithfulnessWatch
from dashboards.reports import SCORER, Reports
from dashboards.review.app import build_review
from dashboards.windows import last
from scorers.covariate import Covariate
from scorers.faithfulness import unscored_reason
from scorers.implicit.detect import infer
from scorers.judge.budget import Budget
from scorers.judge.worker import READ_AHEAD, JudgeWorker
from scorers.lexical import lexical_score
from sinks.clickhouse import ClickHouseStore
from sinks.connection import embedded_folder
from sinks.dead_letters import DeadLetterFile
from sinks.migrate import migrate_url

_BATCH_READ_AHEAD = 2_000
"""Tasks whose calls may be under way in batches at once; they are held in memory."""
if TYPE_CHECKING:
    from collector.receivers.kafka import TopicReader

_GAUGE_SECONDS = 1.0
_RETENTION_SECONDS = 3600.0
_CLUSTERS_SECONDS = 3600.0
_UNSCRAPED = "unscraped.json"
_UNSCRAPED_SCORES = "unscraped-scores.json"
_TRUST_SECONDS = 60.0
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_HEARTBEAT_LIMIT_SECONDS = 30.0

log = structlog.get_logger()


class Urls(NamedTuple):
    """Where a running agent listens."""

    otlp_http: str
    otlp_grpc: str
    metrics: str
    review: str


class Agent(NamedTuple):
    """A running agent."""

    urls: Urls
    reports: Reports
    metrics: Metrics
    failed: asyncio.Event
    """Set when a part of the agent gave up; `running` raises its error on leaving."""


def local_score(request: Any) -> LocalScore:
    """Score a request without any model, and say why where there is nothing to judge."""
    if reason := unscored_reason(request):
        return LocalScore(None, reason)
    result = lexical_score(request)
    return LocalScore(result.score, result.reason)


@asynccontextmanager
async def judges_of(resolved: Resolved, metrics: Metrics) -> AsyncIterator[Judges]:
    """Run the configured judges while no agent does; they pay from the same budget."""
    async with AsyncExitStack() as stack:
        _make_data_dir(resolved.config.data_dir)
        budget = await open_budget(resolved.config, metrics, SystemClock(), stack)
        judges = build_judges(resolved, metrics, budget)
        stack.push_async_callback(judges.close)
        yield judges


def _make_data_dir(folder: Path) -> None:
    """Make the folder for its owner only: the journal in it holds texts of users."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as err:
        raise ConfigError([f"data_dir: {folder} cannot be made: {err.strerror}"]) from err


async def open_store(config: Config, metrics: Metrics) -> ClickHouseStore:
    """Open the store of this configuration; the embedded one below its data folder."""
    if config.store_url.startswith("chdb:"):
        _make_data_dir(config.data_dir)
    return await ClickHouseStore.open(config.store_url, config.store, metrics)


async def open_journal(resolved: Resolved, metrics: Metrics) -> Journal:
    """Open the journal of this configuration: on Kafka where that is named, else in a file."""
    config = resolved.config
    _make_data_dir(config.data_dir)
    if config.journal.kafka is None:
        return await SqliteJournal.open(
            config.data_dir / "journal.sqlite",
            config.journal,
            metrics,
            forgets=config.store.content != "full",
        )
    with _extra("kafka", "journal.kafka"):
        from collector.journal.kafka import KafkaJournal
    if config.store.content != "full":
        log.warning(
            "journal_keeps_texts",
            hours=config.journal.kafka.retention_hours,
            cause="Kafka deletes by age, whatever store.content says",
        )
    return await KafkaJournal.open(
        config.journal.kafka,
        max_body_bytes=config.receive.max_body_bytes,
        password=resolved.secrets.kafka_journal_password,
        metrics=metrics,
    )


async def _topic_readers(
    resolved: Resolved, journal: Journal, letters: DeadLetterFile, metrics: Metrics, clock: Clock
) -> list[TopicReader]:
    """Open what fetches telemetry from Kafka, where that is asked for."""
    source = resolved.config.source.kafka
    if source is None:
        return []
    with _extra("kafka", "source.kafka"):
        from collector.receivers.kafka import open_readers
    return await open_readers(
        source,
        resolved.secrets.kafka_source_password,
        journal=journal,
        dead_letters=letters,
        metrics=metrics,
        config=resolved.config,
        clock=clock,
    )


@contextmanager
def _extra(name: str, key: str) -> Iterator[None]:
    """Say how to install what only some configurations need, where an import shows it missing."""
    try:
        yield
    except ImportError as err:
        raise ConfigError([f"{key}: install groundwatch[{name}] for it"]) from err


@asynccontextmanager
async def running(resolved: Resolved) -> AsyncIterator[Agent]:
    """Run an agent for as long as the block lasts.

    Raises:
        PermanentDependencyError: a port is taken, the data folder is in use, or the store
            refuses every row.
    """
    config = resolved.config
    metrics = Metrics(CollectorRegistry())
    metrics.build_info.labels(version("groundwatch")).set(1)
    clock = SystemClock()
    agent_id = secrets.token_hex(16)
    async with AsyncExitStack() as stack:
        store = await open_store(config, metrics)
        stack.push_async_callback(store.close)
        journal = await open_journal(resolved, metrics)
        stack.push_async_callback(journal.close)
        budget = await open_budget(config, metrics, clock, stack)
        golds = await asyncio.to_thread(golds_of, config)
        judges = await running_judges(resolved, golds, store, budget, metrics, clock, stack)
        judge = judges.judge
        inferring = [CONVERSATIONS] if config.implicit.enabled else []
        topics = (TELEMETRY, SIGNALS, JUDGE, *inferring)
        joining = (journal.consumer(topic, "groundwatch") for topic in topics)
        consumers = dict(zip(topics, await asyncio.gather(*joining), strict=True))
        keeps_texts = config.store.content == "full"
        dead_letters = DeadLetterFile(config.data_dir, bodies=keeps_texts)
        accounting = Accounting(metrics, judge.fingerprint, scorers=judges.fingerprints)
        metrics.judge_info.labels(judge.fingerprint).set(1)
        for counters, name in (
            (accounting.quality, _UNSCRAPED),
            (accounting.scores, _UNSCRAPED_SCORES),
        ):
            counters.take_over(config.data_dir / name)
            stack.callback(counters.hand_over, config.data_dir / name)
        reports = Reports(store, judge.fingerprint, judges.fingerprints)
        for service, segment in await reports.known_segments(clock.now()):
            accounting.announce(service, segment)
        covariate = Covariate(store, SCORER, judge.fingerprint, clock)
        processor = Processor(
            consumer=consumers[TELEMETRY],
            journal=journal,
            store=store,
            score=local_score,
            foreseen=covariate.foreseen,
            dead_letters=dead_letters,
            accounting=accounting,
            metrics=metrics,
            config=config,
            clock=clock,
            own_draws=own_draws(config, golds),
        )
        worker = JudgeWorker(
            consumer=consumers[JUDGE],
            store=store,
            judge=judge,
            scorers=judges.scorers,
            concurrency=config.judge.concurrency,
            max_wait_hours=config.judge.max_wait_hours,
            read_ahead=_BATCH_READ_AHEAD if config.judge.openai.batch else READ_AHEAD,
            carried=accounting.carried,
            finished=accounting.finished,
            dead_letters=dead_letters,
            metrics=metrics,
            clock=clock,
        )
        signals = SignalWriter(
            consumer=consumers[SIGNALS],
            journal=journal,
            store=store,
            dead_letters=dead_letters,
            metrics=metrics,
            config=config,
            clock=clock,
        )
        inference = [
            SignalInference(
                consumer=consumers[topic],
                store=store,
                infer=partial(infer, config=config.implicit),
                config=config.implicit,
                metrics=metrics,
                clock=clock,
            ).run
            for topic in inferring
        ]
        reviewing = (
            [ReviewStream(store, journal, judge.fingerprint, config, metrics, clock).run]
            if review_stream.is_in_use(config)
            else []
        )
        watch = FaithfulnessWatch(
            store, judge.fingerprint, config.alerts, config.judge.max_wait_hours, metrics, clock
        )
        supervisor = _Supervisor(config.shutdown_seconds, clock)
        # Left in reverse: receivers, processor and signals, worker, gauges; then the stores.
        gauges = _gauges(consumers, budget, config, metrics)
        await stack.enter_async_context(supervisor.task(gauges))
        await stack.enter_async_context(supervisor.task(_retention(store, config, clock)))
        await stack.enter_async_context(supervisor.task(_trust(reports, metrics)))
        await stack.enter_async_context(supervisor.task(covariate.keep_fitted()))
        await stack.enter_async_context(supervisor.task(_clusters(reports, accounting, clock)))
        for work in (worker.run, signals.run, *inference, *reviewing, watch.run, processor.run):
            await stack.enter_async_context(supervisor.until_stopped(work))
        for reader in await _topic_readers(resolved, journal, dead_letters, metrics, clock):
            consumers[reader.topic] = reader.consumer
            await stack.enter_async_context(supervisor.until_stopped(reader.run))
        http = _serve(
            stack,
            build_app(journal, config.receive, metrics, resolved.secrets.ingest_token),
            config.listen.otlp_http,
            "otlp_http",
        )
        grpc = GrpcReceiver(journal, config.receive, metrics, resolved.secrets.ingest_token)
        grpc_port = await grpc.start(config.listen.otlp_grpc)
        stack.push_async_callback(grpc.stop)
        exposition = accounting.scores.exposed(make_asgi_app(metrics.registry))
        exposition = accounting.quality.exposed(exposition)
        scrape = _serve(stack, exposition, config.listen.metrics, "metrics")
        review = _serve(
            stack,
            build_review(
                reports,
                lambda: _unhealthy(metrics, clock.now().timestamp()),
                _allowed_hosts(config.listen.review),
                agent_id,
                config.review,
            ),
            config.listen.review,
            "review",
        )
        urls = Urls(
            otlp_http=http.url,
            otlp_grpc=f"{config.listen.otlp_grpc.rpartition(':')[0]}:{grpc_port}",
            metrics=f"{scrape.url}/metrics",
            review=review.url,
        )
        stack.enter_context(_announced(config.data_dir, urls, agent_id))
        log.info("started", **urls._asdict())
        if not _is_loopback(config.listen.review):
            log.warning(
                "review_without_login",
                address=config.listen.review,
                cure="whoever reaches this address reads what users asked: let only a proxy "
                "with a login reach it",
            )
        yield Agent(urls, reports, metrics, supervisor.failed)
        log.info("stopping")
    supervisor.raise_failure()


class _Supervisor:
    """Runs the long-lived parts and remembers the first that failed.

    All of them share one time budget for stopping.
    """

    def __init__(self, shutdown_seconds: float, clock: Clock) -> None:
        self._shutdown_seconds = shutdown_seconds
        self._clock = clock
        self._deadline: Deadline | None = None
        self.failed = asyncio.Event()
        self._failure: BaseException | None = None

    @asynccontextmanager
    async def task(self, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Run `work` for as long as the block lasts, then cancel it."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._note)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def until_stopped(
        self, run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]
    ) -> AsyncIterator[None]:
        """Run `run(stop)`; on leaving set `stop` and let it finish within the budget."""
        stop = asyncio.Event()
        task = asyncio.create_task(run(stop))
        task.add_done_callback(self._note)
        try:
            yield
        finally:
            stop.set()
            self._deadline = self._deadline or Deadline(self._shutdown_seconds, self._clock)
            done, _ = await asyncio.wait([task], timeout=self._deadline.remaining_seconds())
            if not done:
                log.warning("stopped_early", part=getattr(run, "__qualname__", ""))
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def raise_failure(self) -> None:
        """Raise the error of the part that failed first, if one did."""
        if self._failure is not None:
            raise self._failure

    def _note(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        self._failure = self._failure or error
        self.failed.set()
        log.error("part_failed", error=type(error).__name__)


def _serve(stack: AsyncExitStack, app: Any, address: str, name: str) -> HttpServer:
    server = HttpServer(app, address, name)
    server.start()
    stack.push_async_callback(server.stop)
    return server


async def _gauges(
    consumers: dict[str, Consumer], budget: Budget, config: Config, metrics: Metrics
) -> None:
    metrics.disk_needed.set(config.journal.min_free_disk_bytes)
    while True:
        metrics.disk_free.set(shutil.disk_usage(config.data_dir).free)
        with suppress(DependencyError):  # shown again when it can be read
            await budget.show()
        for topic, consumer in list(consumers.items()):
            with suppress(DependencyError):
                records, seconds = await consumer.lag()
                metrics.journal_lag_records.labels(topic).set(records)
                metrics.journal_lag_seconds.labels(topic).set(seconds)
        await asyncio.sleep(_GAUGE_SECONDS)


def _allowed_hosts(address: str) -> list[str]:
    """On loopback only local names are answered; elsewhere a proxy decides."""
    return ["localhost", "127.0.0.1", "[::1]"] if _is_loopback(address) else ["*"]


def _is_loopback(address: str) -> bool:
    return address.rpartition(":")[0].strip("[]") in _LOOPBACK


async def _trust(reports: Reports, metrics: Metrics) -> None:
    """Say once a minute whether the judge is trusted."""
    while True:
        with suppress(DependencyError):
            trust = (await reports.trust())["trust"]
            metrics.judge_trusted.clear()
            worth = {"trusted": 1.0, "weak": 0.5}.get(trust, 0.0)
            metrics.judge_trusted.labels(reports.fingerprint, trust).set(worth)
        await asyncio.sleep(_TRUST_SECONDS)


async def _clusters(reports: Reports, accounting: Accounting, clock: Clock) -> None:
    """Export every hour how much the conversations of the last day widen the variance."""
    while True:
        now = clock.now()
        try:
            for where, factor in (await reports.design_effects(last("24h", now))).items():
                accounting.clustered(*where, factor)
        except DependencyError as err:
            log.warning("design_effect_failed", error=type(err).__name__)
        await asyncio.sleep(_CLUSTERS_SECONDS)


async def _retention(store: ClickHouseStore, config: Config, clock: Clock) -> None:
    """Drop what is older than the retention, at the start and every hour."""
    kept = timedelta(weeks=config.store.retention_weeks)
    while True:
        try:
            if dropped := await store.drop_before(clock.now() - kept):
                log.info("dropped_old_partitions", partitions=dropped)
        except DependencyError as err:
            log.warning("retention_failed", error=type(err).__name__)
        await asyncio.sleep(_RETENTION_SECONDS)


def _unhealthy(metrics: Metrics, now: float) -> list[str]:
    """Return the loops that have not turned lately."""
    return [
        sample.labels["loop"]
        for metric in metrics.loop_timestamp.collect()
        for sample in metric.samples
        if now - sample.value > _HEARTBEAT_LIMIT_SECONDS
    ]


async def migrate_store(config: Config, *, dry_run: bool) -> list[str]:
    """Bring the tables of the store up to date; return what was, or would be, applied."""
    if config.store_url.startswith("chdb:"):
        _make_data_dir(config.data_dir)
    return await asyncio.to_thread(migrate_url, config.store_url, dry_run=dry_run)


@asynccontextmanager
async def reports_of(resolved: Resolved) -> AsyncIterator[Reports]:
    """Open the store for reading reports while no agent runs.

    Raises:
        UsageError: there is none.
    """
    folder = embedded_folder(resolved.config.store_url)
    if folder is not None and not (folder.is_dir() and any(folder.iterdir())):
        place = folder if resolved.config.store.url else resolved.config.data_dir
        where = place.absolute()
        raise UsageError(
            [f"no data in {where}; name an agent's folder with --data-dir, or its file with -c"]
        )
    metrics = Metrics(CollectorRegistry())
    store: Store = await open_store(resolved.config, metrics)
    judges = build_judges(resolved, metrics)
    try:
        yield Reports(store, judges.judge.fingerprint, judges.fingerprints)
    finally:
        await judges.close()
        await store.close()


class _announced:
    """Tells commands on this machine where the running agent answers, and how to know it."""

    def __init__(self, data_dir: Path, urls: Urls, agent_id: str) -> None:
        self._path = announcement(data_dir)
        self._told = {**urls._asdict(), "id": agent_id}

    def __enter__(self) -> None:
        # In one step, so that nobody reads half of it.
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self._told))
        fresh.replace(self._path)

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._path.unlink()


def announcement(data_dir: Path) -> Path:
    """Return the file in which a running agent says where it listens."""
    return data_dir / "agent.json"
