"""One migration at a time on a database, with nothing but ClickHouse.

CREATE TABLE without IF NOT EXISTS succeeds for one of two callers: on one server by itself, on a
cluster by the queue that its keeper holds. The lock is an empty table `migration_lock_N`, whose
comment says since when, by the server's clock, and for whom. One who died holding it is passed
over after a while: the next takes N + 1.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from uuid import uuid4

import structlog
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from collector.errors import DependencyError
from sinks.connection import translated

_STALE_SECONDS = 600
"""Far longer than migrations take. Should one take longer still, it is harmless to overtake it:
every statement is safe to repeat."""

_POLL_SECONDS = 0.5
_TABLE_ALREADY_EXISTS = 57

_LOCKS = """
SELECT name, comment FROM system.tables
WHERE database = currentDatabase() AND match(name, '^migration_lock_[0-9]+$')
"""

log = structlog.get_logger()


class _Lock(NamedTuple):
    """A lock that lies in the database; `comment` is its age and holder, unique to it."""

    number: int
    comment: str


@contextmanager
def migration_lock(client: Client, on_cluster: str) -> Iterator[None]:
    """Hold the lock of the client's database, after waiting for whoever holds it now.

    Args:
        client: an open client.
        on_cluster: ` ON CLUSTER ...` for the tables of a cluster, else empty.

    Raises:
        DependencyError: the server does not answer or refuses.
    """
    mine = _taken(client, on_cluster)
    try:
        yield
    finally:
        # What cannot be let go gets stale.
        with suppress(DependencyError):
            _drop(client, mine, on_cluster)


def _taken(client: Client, on_cluster: str) -> _Lock:
    told = False
    while True:
        now, found = _locks(client)
        newest = max(found, default=None)
        if newest is None or now - _since(newest) >= _STALE_SECONDS:
            number = newest.number + 1 if newest else 1
            mine = _Lock(number, f"{now} {socket.gethostname()} {os.getpid()} {uuid4().hex}")
            if _created(client, mine, on_cluster):
                # Somebody else may have gone the same way in between.
                if _locks(client)[1] == found | {mine}:
                    for stale in found:
                        _drop(client, stale, on_cluster)
                    return mine
                _drop(client, mine, on_cluster)
        elif not told:
            told = True
            log.warning(
                "waiting_for_another_migration",
                since_seconds=now - _since(newest),
                holder=newest.comment.split(" ", 1)[1],
                passed_over_after_seconds=_STALE_SECONDS,
            )
        time.sleep(_POLL_SECONDS)


def _since(lock: _Lock) -> int:
    return int(lock.comment.split(" ", 1)[0])


def _locks(client: Client) -> tuple[int, set[_Lock]]:
    """Return the server's time in Unix seconds, and the locks that are there."""
    with translated("looking for other migrations"):
        now = int(str(client.command("SELECT toUnixTimestamp(now())")))
        rows = client.query(_LOCKS).result_rows
    return now, {_Lock(int(str(name).rpartition("_")[2]), str(comment)) for name, comment in rows}


def _created(client: Client, lock: _Lock, on_cluster: str) -> bool:
    """Create the table of a lock; return whether it was not there."""
    with translated("taking the lock of migrations"):
        try:
            client.command(
                f"CREATE TABLE migration_lock_{lock.number}{on_cluster} (held UInt8) "
                f"ENGINE = Memory COMMENT '{lock.comment}'"
            )
        except ClickHouseError as err:
            if getattr(err, "code", None) != _TABLE_ALREADY_EXISTS:
                raise
            return False
    return True


def _drop(client: Client, lock: _Lock, on_cluster: str) -> None:
    with translated("letting go the lock of migrations"):
        client.command(f"DROP TABLE IF EXISTS migration_lock_{lock.number}{on_cluster}")
