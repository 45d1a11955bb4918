"""The ClickHouse server that tests speak to: a real one where one is named, else a stand-in.

GROUNDWATCH_TEST_CLICKHOUSE is its URL without a database, GROUNDWATCH_TEST_CLUSTER the cluster of
one shard it belongs to, if any. Tests make databases of their own there, and drop them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from collector.config import StoreConfig
from sinks.connection import connect
from tests.fakes.clickhouse_http import serving


@contextmanager
def a_server(folder: Path) -> Iterator[str]:
    """Yield the URL of the named server, else of one on the engine of `folder`."""
    if url := os.environ.get("GROUNDWATCH_TEST_CLICKHOUSE"):
        yield url.rstrip("/")
        return
    with serving(folder) as served:
        yield served.url


@contextmanager
def a_database(server: str) -> Iterator[StoreConfig]:
    """Make an empty database on the server; yield the configuration of a store in it."""
    name = f"groundwatch_test_{uuid4().hex}"
    cluster = os.environ.get("GROUNDWATCH_TEST_CLUSTER")
    on_cluster = f" ON CLUSTER `{cluster}`" if cluster else ""
    client = connect(f"{server}/default", {})
    try:
        client.command(f"CREATE DATABASE {name}{on_cluster}")
        yield StoreConfig(url=f"{server}/{name}", cluster=cluster)
        client.command(f"DROP DATABASE {name}{on_cluster} SYNC")
    finally:
        client.close()
