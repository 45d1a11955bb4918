"""What exactly one process does for all that share a store: evidence, trust, upkeep."""

from __future__ import annotations

import asyncio
from functools import partial

from collector import review_stream
from collector.agent.opening import open_turn
from collector.agent.parts import Parts
from collector.agent.periodic import clusters, retention, trust
from collector.agent.supervisor import Run
from collector.review_stream import ReviewStream
from collector.telemetry import Metrics
from dashboards.faithfulness_watch import FaithfulnessWatch
from dashboards.review.handover import HandOver


async def add_reporter(parts: Parts) -> None:
    """Report for as long as the process runs, or whenever it is its turn among several."""
    await parts.data()
    await parts.journal()
    parts.metrics.role.labels("reporter").set(0)
    work: Run = partial(_report, parts)
    turns = await open_turn(parts.resolved, work, parts.clock, parts.stack)
    await parts.run(work if turns is None else turns.run)


async def _report(parts: Parts, over: asyncio.Event) -> None:
    """Report until it is over. Begins from what is stored, since another may have gone on."""
    data, journal = await parts.data(), await parts.journal()
    config, metrics, clock = parts.config, parts.metrics, parts.clock
    watch = FaithfulnessWatch(
        data.store, data.fingerprint, config.alerts, config.judge.max_wait_hours, metrics, clock
    )
    stream = ReviewStream(data.store, journal, data.fingerprint, config, metrics, clock)
    endless = (
        retention(data.store, config, clock),
        trust(data.reports, metrics),
        clusters(data.reports, data.accounting, clock),
        data.covariate.keep_fitted(),
    )
    metrics.role.labels("reporter").set(1)
    try:
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(work) for work in endless]
            group.create_task(watch.run(over))
            if review_stream.is_in_use(config):
                group.create_task(stream.run(over))
            if config.review.handover.at is not None:
                group.create_task(HandOver(data.reports, parts.resolved, clock).run(over))
            await over.wait()
            for task in background:
                task.cancel()
    finally:
        _fall_silent(metrics)


def _fall_silent(metrics: Metrics) -> None:
    """Take back what only the reporter says: from now on it would be out of date."""
    metrics.role.labels("reporter").set(0)
    for gauge in (
        metrics.evidence,
        metrics.evidence_threshold,
        metrics.wanted,
        metrics.judge_trusted,
        metrics.design_effect,
    ):
        gauge.clear()
    metrics.evidence_timestamp.set(0)
