"""The composition root: builds one agent from a configuration, starts and stops it.

Stops in the order in which telemetry flows: receivers refuse, what is open is stored, judgements
that are done are kept, the rest waits in the journal.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from prometheus_client import make_asgi_app
from starlette.applications import Starlette
from starlette.routing import Mount

from collector.agent.listening import (
    Announced,
    Urls,
    allowed_hosts,
    door_of,
    is_loopback,
    serve,
    stalled,
)
from collector.agent.opening import open_topics
from collector.agent.parts import Parts
from collector.agent.periodic import gauges
from collector.agent.reporter import add_reporter
from collector.agent.roles import ALL, Roles, check_roles
from collector.building import LocalScore
from collector.config import Resolved
from collector.inference import SignalInference
from collector.judges import own_draws
from collector.pipeline import Processor
from collector.ports import CONVERSATIONS, JUDGE, SIGNALS, TELEMETRY
from collector.receivers.otlp_grpc import GrpcReceiver
from collector.receivers.otlp_http import build_app
from collector.releases import keep_releases
from collector.signal_writer import SignalWriter
from collector.telemetry import Metrics
from dashboards.health import health_routes
from dashboards.reports import Reports
from dashboards.review.app import build_review
from scorers.faithfulness import unscored_reason
from scorers.implicit.detect import infer
from scorers.judge.worker import READ_AHEAD, JudgeWorker
from scorers.lexical import lexical_score

_BATCH_READ_AHEAD = 2_000
"""Tasks whose calls may be under way in batches at once; they are held in memory."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Agent:
    """A running agent."""

    urls: Urls
    metrics: Metrics
    failed: asyncio.Event
    """Set when a part of the agent gave up; `running` raises its error on leaving."""
    stored: Reports | None
    """None in a receiver alone, which has no store."""

    @property
    def reports(self) -> Reports:
        """What the store says.

        Raises:
            LookupError: a receiver alone has no store.
        """
        if self.stored is None:
            raise LookupError("a receiver alone has no store to report from")
        return self.stored


@asynccontextmanager
async def running(resolved: Resolved, roles: Roles = ALL) -> AsyncIterator[Agent]:
    """Run an agent with these roles for as long as the block lasts.

    Raises:
        ConfigError: journal or store cannot be shared with processes that have the other roles.
        PermanentDependencyError: a port is taken, the data folder is in use, or the store
            refuses every row.
    """
    check_roles(roles, resolved.config)
    agent_id, token = secrets.token_hex(16), secrets.token_urlsafe(32)
    async with AsyncExitStack() as stack:
        parts = Parts(resolved, roles, stack)
        urls = Urls(metrics="")
        # Left in reverse.
        if "reporter" in roles:
            await add_reporter(parts)
        if "judge" in roles:
            await _add_judge(parts)
        if "processor" in roles:
            await _add_processor(parts)
        if "receiver" in roles:
            urls = await _add_receiver(parts, urls)
        await parts.keep_doing(gauges(parts.consumers, parts.budget, parts.config, parts.metrics))
        urls = urls._replace(metrics=_serve_metrics(parts, agent_id))
        if "review" in roles:
            urls = await _add_review(parts, urls, agent_id, token)
        stack.enter_context(Announced(parts.config.data_dir, urls, agent_id, token))
        log.info("started", **urls.in_use)
        stored = None if parts.known is None else parts.known.reports
        yield Agent(urls, parts.metrics, parts.supervisor.failed, stored)
        log.info("stopping")
    parts.supervisor.raise_failure()


async def _add_judge(parts: Parts) -> None:
    """Judge what was drawn."""
    data, config = await parts.data(), parts.config
    (tasks,) = await parts.read(JUDGE)
    worker = JudgeWorker(
        consumer=tasks,
        store=data.store,
        judge=data.judges.judge,
        scorers=data.judges.scorers,
        concurrency=config.judge.concurrency,
        max_wait_hours=config.judge.max_wait_hours,
        read_ahead=_BATCH_READ_AHEAD if config.judge.openai.batch else READ_AHEAD,
        carried=data.accounting.carried,
        finished=data.accounting.finished,
        dead_letters=parts.dead_letters(),
        metrics=parts.metrics,
        clock=parts.clock,
    )
    parts.takes_role("judge")
    await parts.run(worker.run)


async def _add_processor(parts: Parts) -> None:
    """Make requests of telemetry, store what users say of them, infer what they do not say."""
    data, journal, letters = await parts.data(), await parts.journal(), parts.dead_letters()
    config, metrics, clock = parts.config, parts.metrics, parts.clock
    inferring = [CONVERSATIONS] if config.implicit.enabled else []
    telemetry, told, *conversations = await parts.read(TELEMETRY, SIGNALS, *inferring)
    processor = Processor(
        consumer=telemetry,
        journal=journal,
        store=data.store,
        score=local_score,
        foreseen=data.covariate.foreseen,
        dead_letters=letters,
        accounting=data.accounting,
        metrics=metrics,
        config=config,
        clock=clock,
        own_draws=own_draws(config, data.golds),
    )
    signals = SignalWriter(
        consumer=told,
        journal=journal,
        store=data.store,
        dead_letters=letters,
        metrics=metrics,
        config=config,
        clock=clock,
    )
    inference = [
        SignalInference(
            consumer=turns,
            store=data.store,
            infer=partial(infer, config=config.implicit),
            config=config.implicit,
            metrics=metrics,
            clock=clock,
        ).run
        for turns in conversations
    ]
    parts.takes_role("processor")
    await parts.keep_doing(data.covariate.follow())
    await parts.keep_doing(keep_releases(data.store, data.accounting.fresh_releases))
    await parts.run(signals.run, *inference, processor.run)


async def _add_receiver(parts: Parts, urls: Urls) -> Urls:
    """Take telemetry and signals in, over HTTP and gRPC and from topics of a Collector."""
    journal, config, metrics = await parts.journal(), parts.config, parts.metrics
    for reader in await open_topics(
        parts.resolved, journal, parts.dead_letters(), metrics, parts.clock
    ):
        parts.consumers[reader.topic] = reader.consumer
        await parts.run(reader.run)
    token = parts.resolved.secrets.ingest_token
    app = build_app(journal, config.receive, metrics, token)
    http = serve(parts.stack, app, config.listen.otlp_http, "otlp_http")
    grpc = GrpcReceiver(journal, config.receive, metrics, token)
    port = await grpc.start(config.listen.otlp_grpc)
    parts.stack.push_async_callback(grpc.stop)
    parts.takes_role("receiver")
    host = config.listen.otlp_grpc.rpartition(":")[0]
    return urls._replace(otlp_http=http.url, otlp_grpc=f"{host}:{port}")


async def _add_review(parts: Parts, urls: Urls, agent_id: str, token: str) -> Urls:
    """Show the review to people, and answer commands."""
    data, config = await parts.data(), parts.config
    address, door = config.listen.review, door_of(parts.resolved, token, data.store)
    app = build_review(
        data.reports,
        partial(_stalled, parts),
        allowed_hosts(address),
        agent_id,
        config.review,
        door,
    )
    await parts.keep_doing(app.state.desk.numbers.keep_warm())
    server = serve(parts.stack, app, address, "review")
    parts.takes_role("review")
    if not is_loopback(address) and not door.has_login:
        log.warning(
            "review_without_login",
            address=address,
            cure="only this machine itself is answered; set review.users or review.proxy_header",
        )
    return urls._replace(review=server.url)


def _serve_metrics(parts: Parts, agent_id: str) -> str:
    """Serve metrics and, for processes that have no review, health checks; return the URL."""
    exposition = make_asgi_app(parts.metrics.registry)
    if parts.known is not None:
        exposition = parts.known.accounting.scores.exposed(exposition)
        exposition = parts.known.accounting.quality.exposed(exposition)

    async def ping() -> None:
        if parts.known is not None:
            await parts.known.reports.ping()

    health = health_routes(partial(_stalled, parts), ping, agent_id)
    app = Starlette(routes=[*health, Mount("/", exposition)])
    return f"{serve(parts.stack, app, parts.config.listen.metrics, 'metrics').url}/metrics"


def _stalled(parts: Parts) -> list[str]:
    return stalled(parts.metrics, parts.clock.now().timestamp())


def local_score(request: Any) -> LocalScore:
    """Score a request without any model, and say why where there is nothing to judge."""
    if reason := unscored_reason(request):
        return LocalScore(None, reason)
    result = lexical_score(request)
    return LocalScore(result.score, result.reason)
