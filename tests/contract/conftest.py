"""Fixtures of the contract suites: the same tests on what is real and on its stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from collector.config import JournalConfig, StoreConfig
from collector.journal.sqlite import SqliteJournal
from collector.ports import Journal, Store
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore
from tests.fakes.journal import MemoryJournal
from tests.fakes.store import MemoryStore

_JOURNAL_BYTES = 16 * 1024 * 1024


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    """A store on the real engine, for all tests of a file."""
    url = f"chdb://{tmp_path_factory.mktemp('store')}"
    opened = asyncio.run(ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry())))
    yield opened
    asyncio.run(opened.close())


@pytest.fixture(params=["memory", "clickhouse"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore()
    real: ClickHouseStore = request.getfixturevalue("clickhouse")
    return real


@pytest.fixture(params=["sqlite", "memory"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    journal: Journal
    if request.param == "sqlite":
        config = JournalConfig(max_bytes=_JOURNAL_BYTES, min_free_disk_bytes=0)
        journal = await SqliteJournal.open(tmp_path / "journal.db", config)
    else:
        journal = MemoryJournal(max_bytes=_JOURNAL_BYTES)
    yield journal
    await journal.close()
