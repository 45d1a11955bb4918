"""Opens what an agent, or a command in its place, works with: store, journal, judges, topics."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry

from collector.agent.supervisor import Run
from collector.config import Config, Resolved
from collector.errors import ConfigError, UsageError
from collector.journal.sqlite import SqliteJournal
from collector.judges import Judges, build_judges, open_budget
from collector.ports import DeadLetters, Journal, Store
from collector.telemetry import Metrics
from collector.timing import Clock, SystemClock
from dashboards.reports import Reports
from sinks.clickhouse import ClickHouseStore
from sinks.connection import embedded_folder
from sinks.migrate import migrate_url

if TYPE_CHECKING:
    from collector.journal.turn import Turns
    from collector.receivers.kafka import TopicReader

log = structlog.get_logger()


def make_data_dir(folder: Path) -> None:
    """Make the folder for its owner only: the journal in it holds texts of users.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as err:
        raise ConfigError([f"data_dir: {folder} cannot be made: {err.strerror}"]) from err


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder of an agent whose journal lies elsewhere, where nothing else would tell.

    What two left there, each would take for its own. The system lets go of one that dies.

    Raises:
        ConfigError: another agent holds it, or it cannot be written.
    """
    path = folder / "agent.lock"
    try:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as err:
        raise ConfigError([f"data_dir: {path} cannot be written: {err.strerror}"]) from err
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        os.close(lock)
        raise ConfigError(
            [f"data_dir: {folder} is another agent's; give each process a folder of its own"]
        ) from err
    except OSError:  # a folder of a network without locks
        log.warning("data_dir_not_held")
    try:
        yield
    finally:
        os.close(lock)


async def open_store(config: Config, metrics: Metrics) -> ClickHouseStore:
    """Open the store of this configuration; the embedded one below its data folder."""
    if config.store_url.startswith("chdb:"):
        make_data_dir(config.data_dir)
    return await ClickHouseStore.open(config.store_url, config.store, metrics)


async def migrate_store(config: Config, *, dry_run: bool) -> list[str]:
    """Bring the tables of the store up to date; return what was, or would be, applied."""
    if config.store_url.startswith("chdb:"):
        make_data_dir(config.data_dir)
    return await asyncio.to_thread(
        migrate_url, config.store_url, cluster=config.store.cluster, dry_run=dry_run
    )


async def open_journal(resolved: Resolved, metrics: Metrics) -> Journal:
    """Open the journal of this configuration: on Kafka where that is named, else in a file."""
    config = resolved.config
    make_data_dir(config.data_dir)
    if config.journal.kafka is None:
        return await SqliteJournal.open(
            config.data_dir / "journal.sqlite",
            config.journal,
            metrics,
            forgets=config.store.content != "full",
        )
    with extra("kafka", "journal.kafka"):
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


async def open_topics(
    resolved: Resolved, journal: Journal, letters: DeadLetters, metrics: Metrics, clock: Clock
) -> list[TopicReader]:
    """Open what fetches telemetry from Kafka, where that is asked for."""
    source = resolved.config.source.kafka
    if source is None:
        return []
    with extra("kafka", "source.kafka"):
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


async def open_turn(
    resolved: Resolved, work: Run, clock: Clock, stack: AsyncExitStack
) -> Turns | None:
    """Take part in the turns to report; None where this process has no others beside it."""
    kafka = resolved.config.journal.kafka
    if kafka is None:
        return None
    with extra("kafka", "journal.kafka"):
        from collector.journal.turn import Turns, join
    member = await join(kafka, resolved.secrets.kafka_journal_password, "reporter", clock)
    stack.push_async_callback(member.close)
    return Turns(member, work)


@contextmanager
def extra(name: str, key: str) -> Iterator[None]:
    """Say how to install what only some configurations need, where an import shows it missing."""
    try:
        yield
    except ImportError as err:
        raise ConfigError([f"{key}: install groundwatch[{name}] for it"]) from err


@asynccontextmanager
async def judges_of(resolved: Resolved, metrics: Metrics) -> AsyncIterator[Judges]:
    """Run the configured judges while no agent does; they pay from the same budget."""
    async with AsyncExitStack() as stack:
        make_data_dir(resolved.config.data_dir)
        budget = await open_budget(resolved.config, metrics, SystemClock(), stack)
        judges = build_judges(resolved, metrics, budget)
        stack.push_async_callback(judges.close)
        yield judges


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
