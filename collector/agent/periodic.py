"""What an agent does every second, minute or hour beside the data that flow through it."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from datetime import timedelta

import structlog

from collector.accounting import Accounting
from collector.config import Config
from collector.errors import DependencyError
from collector.ports import Consumer
from collector.telemetry import Metrics
from collector.timing import Clock
from dashboards.reports import Reports
from dashboards.windows import last
from scorers.judge.budget import Budget
from sinks.clickhouse import ClickHouseStore

_GAUGE_SECONDS = 1.0
_RETENTION_SECONDS = 3600.0
_CLUSTERS_SECONDS = 3600.0
_TRUST_SECONDS = 60.0

log = structlog.get_logger()


async def gauges(
    consumers: dict[str, Consumer], budget: Budget, config: Config, metrics: Metrics
) -> None:
    """Export every second what nobody tells of by itself: disk, money, lag of the journal."""
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


async def trust(reports: Reports, metrics: Metrics) -> None:
    """Say once a minute whether the judge is trusted."""
    while True:
        with suppress(DependencyError):
            word = (await reports.trust())["trust"]
            metrics.judge_trusted.clear()
            worth = {"trusted": 1.0, "weak": 0.5}.get(word, 0.0)
            metrics.judge_trusted.labels(reports.fingerprint, word).set(worth)
        await asyncio.sleep(_TRUST_SECONDS)


async def clusters(reports: Reports, accounting: Accounting, clock: Clock) -> None:
    """Export every hour how much the conversations of the last day widen the variance."""
    while True:
        now = clock.now()
        try:
            for where, factor in (await reports.design_effects(last("24h", now))).items():
                accounting.clustered(*where, factor)
        except DependencyError as err:
            log.warning("design_effect_failed", error=type(err).__name__)
        await asyncio.sleep(_CLUSTERS_SECONDS)


async def retention(store: ClickHouseStore, config: Config, clock: Clock) -> None:
    """Let what is older than is to be kept go, at the start and every hour."""
    kept = timedelta(weeks=config.store.retention_weeks)
    while True:
        try:
            await store.keep_telemetry(config.store.late_spans_hours)
            if dropped := await store.drop_before(clock.now() - kept):
                log.info("dropped_old_partitions", partitions=dropped)
        except DependencyError as err:
            log.warning("retention_failed", error=type(err).__name__)
        await asyncio.sleep(_RETENTION_SECONDS)
