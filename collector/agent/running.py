"""The composition root: builds one agent from a configuration, starts and stops it.

Stops in the order in which telemetry flows: receivers refuse, what is open is stored, judgements
that are done are kept, the rest waits in the journal.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, make_asgi_app

from collector import review_stream
from collector.accounting import Accounting
from collector.agent.listening import Announced, Urls, allowed_hosts, is_loopback, serve, stalled
from collector.agent.opening import open_journal, open_store, open_topics
from collector.agent.periodic import clusters, gauges, retention, trust
from collector.agent.supervisor import Supervisor
from collector.config import Resolved
from collector.inference import SignalInference
from collector.judges import golds_of, open_budget, own_draws, running_judges
from collector.pipeline import LocalScore, Processor
from collector.ports import CONVERSATIONS, JUDGE, SIGNALS, TELEMETRY
from collector.receivers.otlp_grpc import GrpcReceiver
from collector.receivers.otlp_http import build_app
from collector.review_stream import ReviewStream
from collector.signal_writer import SignalWriter
from collector.telemetry import Metrics
from collector.timing import SystemClock
from dashboards.faithfulness_watch import FaithfulnessWatch
from dashboards.reports import SCORER, Reports
from dashboards.review.app import build_review
from scorers.covariate import Covariate
from scorers.faithfulness import unscored_reason
from scorers.implicit.detect import infer
from scorers.judge.worker import READ_AHEAD, JudgeWorker
from scorers.lexical import lexical_score
from sinks.dead_letters import DeadLetterFile

_BATCH_READ_AHEAD = 2_000
"""Tasks whose calls may be under way in batches at once; they are held in memory."""
_UNSCRAPED = "unscraped.json"
_UNSCRAPED_SCORES = "unscraped-scores.json"

log = structlog.get_logger()


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
        supervisor = Supervisor(config.shutdown_seconds, clock)
        # Left in reverse: receivers, processor and signals, worker, gauges; then the stores.
        await stack.enter_async_context(supervisor.task(gauges(consumers, budget, config, metrics)))
        await stack.enter_async_context(supervisor.task(retention(store, config, clock)))
        await stack.enter_async_context(supervisor.task(trust(reports, metrics)))
        await stack.enter_async_context(supervisor.task(covariate.keep_fitted()))
        await stack.enter_async_context(supervisor.task(clusters(reports, accounting, clock)))
        for work in (worker.run, signals.run, *inference, *reviewing, watch.run, processor.run):
            await stack.enter_async_context(supervisor.until_stopped(work))
        for reader in await open_topics(resolved, journal, dead_letters, metrics, clock):
            consumers[reader.topic] = reader.consumer
            await stack.enter_async_context(supervisor.until_stopped(reader.run))
        http = serve(
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
        scrape = serve(stack, exposition, config.listen.metrics, "metrics")
        review = serve(
            stack,
            build_review(
                reports,
                lambda: stalled(metrics, clock.now().timestamp()),
                allowed_hosts(config.listen.review),
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
        stack.enter_context(Announced(config.data_dir, urls, agent_id))
        log.info("started", **urls._asdict())
        if not is_loopback(config.listen.review):
            log.warning(
                "review_without_login",
                address=config.listen.review,
                cure="whoever reaches this address reads what users asked: let only a proxy "
                "with a login reach it",
            )
        yield Agent(urls, reports, metrics, supervisor.failed)
        log.info("stopping")
    supervisor.raise_failure()
