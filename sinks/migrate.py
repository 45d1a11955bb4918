"""Ordered, checksummed SQL migrations.

Files are named `NNNN_name.sql` and applied in order, once. A statement must be safe to repeat
(IF NOT EXISTS): a process that dies between a file and its record applies the file again. A file
that was applied is never edited; a change is a new file. On a cluster the same files make tables
that are replicated: see `replicated`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import nullcontext
from importlib import resources
from typing import NamedTuple

from clickhouse_connect.driver.client import Client

from collector.errors import PermanentDependencyError
from sinks.connection import (
    REPLICATED_WRITER_SETTINGS,
    WRITER_SETTINGS,
    connect,
    is_embedded,
    translated,
)
from sinks.migration_lock import migration_lock

# A change of a table is done once all its replicas have it, and any of them can be written to.
_REPLICATED_SETTINGS = {**REPLICATED_WRITER_SETTINGS, "alter_sync": 2}

_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
  name String,
  checksum String,
  applied_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(applied_at)
ORDER BY name
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
"""

_CLUSTERS = "SELECT cluster, uniqExact(shard_num) FROM system.clusters GROUP BY cluster"
_ENGINE_OF_LEDGER = (
    "SELECT engine FROM system.tables "
    "WHERE database = currentDatabase() AND name = 'schema_migrations'"
)

_CREATED = re.compile(r"\A\s*CREATE TABLE IF NOT EXISTS \w+")
_ENGINE = re.compile(r"^ENGINE = (?=\w*MergeTree\b)", re.MULTILINE)
_FILE_NAME = re.compile(r"\d{4}_[a-z0-9_]+\.sql")
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


class Migration(NamedTuple):
    """One file: its name without the suffix, and its text."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, the same for both kinds of line ends."""
        return hashlib.sha256(self.text.replace("\r\n", "\n").encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        """The SQL statements, split at each `;` that ends a line, comments left out."""
        bare = _COMMENT.sub("", self.text)
        return [
            part.strip() for part in re.split(r";\s*$", bare, flags=re.MULTILINE) if part.strip()
        ]


def packaged() -> list[Migration]:
    """Return the migrations of this version, in order."""
    files = resources.files("sinks.migrations").iterdir()
    found = [
        Migration(file.name.removesuffix(".sql"), file.read_text("utf-8"))
        for file in files
        if _FILE_NAME.fullmatch(file.name)
    ]
    return sorted(found)


def pending(applied: dict[str, str], wanted: Iterable[Migration]) -> list[Migration]:
    """Return the migrations still to apply.

    Args:
        applied: checksum by name, as recorded in the database.
        wanted: the migrations of this version, in order.

    Raises:
        PermanentDependencyError: an applied file was changed, or the database knows a file that
            this version does not.
    """
    by_name = {migration.name: migration for migration in wanted}
    if strangers := sorted(applied.keys() - by_name.keys()):
        raise PermanentDependencyError(
            f"store: the migration {strangers[-1]} is applied but unknown here: "
            "the database was set up by a newer groundwatch; upgrade this one"
        )
    for name, checksum in sorted(applied.items()):
        if by_name[name].checksum != checksum:
            raise PermanentDependencyError(
                f"store: the migration {name} was changed after it was applied; "
                "restore the file, and put the change into a new one"
            )
    return [migration for name, migration in sorted(by_name.items()) if name not in applied]


def replicated(statement: str, cluster: str) -> str:
    """Return a statement as it is given to a cluster.

    A table is made on each server, as a replica at the server's default path in its keeper. What
    changes a table of that kind is passed on by the table itself.
    """
    made, is_made = _CREATED.subn(lambda found: found[0] + _on(cluster), statement)
    return _ENGINE.sub("ENGINE = Replicated", made) if is_made else statement


def migrate(
    client: Client,
    *,
    cluster: str | None = None,
    dry_run: bool = False,
    migrations: Iterable[Migration] | None = None,
) -> list[str]:
    """Bring the database up to date.

    Args:
        client: an open client; nothing else may migrate at the same time.
        cluster: the cluster whose servers hold the tables, None for the client's server alone.
        dry_run: only say what would be applied; the database is left untouched.
        migrations: which ones; those of this version by default.

    Returns:
        Names of the migrations applied now (or to apply), in order.

    Raises:
        PermanentDependencyError: see `pending`, a statement was refused, or the cluster is none
            that could hold the tables.
        TransientDependencyError: the database does not answer now.
    """
    if cluster is not None:
        _check(client, cluster)
    todo = pending(_applied(client), packaged() if migrations is None else migrations)
    if dry_run:
        return [migration.name for migration in todo]
    with translated("creating schema_migrations"):
        client.command(_LEDGER if cluster is None else replicated(_LEDGER, cluster))
    for migration in todo:
        _apply(client, migration, cluster)
    return [migration.name for migration in todo]


def migrate_url(url: str, *, cluster: str | None = None, dry_run: bool = False) -> list[str]:
    """Bring the database behind `url` up to date, alone among all who try; see `migrate`."""
    client = connect(url, WRITER_SETTINGS if cluster is None else _REPLICATED_SETTINGS)
    try:
        todo = migrate(client, cluster=cluster, dry_run=True)
        if dry_run or not todo:
            return todo
        # The folder of an embedded store belongs to this process anyway.
        on_cluster = "" if cluster is None else _on(cluster)
        with nullcontext() if is_embedded(url) else migration_lock(client, on_cluster):
            return migrate(client, cluster=cluster)
    finally:
        client.close()


def _on(cluster: str) -> str:
    name = cluster.replace("\\", "\\\\").replace("`", "\\`")
    return f" ON CLUSTER `{name}`"


def _check(client: Client, cluster: str) -> None:
    """Raise PermanentDependencyError where the tables cannot be replicas on the cluster."""
    with translated("reading system.clusters"):
        shards = {str(name): int(n) for name, n in client.query(_CLUSTERS).result_rows}
        engines = client.query(_ENGINE_OF_LEDGER).result_rows
    if cluster not in shards:
        known = ", ".join(sorted(shards)) or "none"
        raise PermanentDependencyError(
            f"store.cluster: the server knows no cluster {cluster}, only: {known}"
        )
    if shards[cluster] != 1:
        raise PermanentDependencyError(
            f"store.cluster: {cluster} has {shards[cluster]} shards; name a cluster of one shard, "
            "all whose servers are to hold everything"
        )
    if engines and not str(engines[0][0]).startswith("Replicated"):
        raise PermanentDependencyError(
            "store.cluster: the tables in this database are not replicated; set store.url to an "
            "empty database, and copy what is to be kept"
        )


def _applied(client: Client) -> dict[str, str]:
    with translated("reading schema_migrations"):
        if not int(str(client.command("EXISTS TABLE schema_migrations"))):
            return {}
        result = client.query("SELECT name, checksum FROM schema_migrations FINAL")
    return {str(name): str(checksum) for name, checksum in result.result_rows}


def _apply(client: Client, migration: Migration, cluster: str | None) -> None:
    for number, statement in enumerate(migration.statements, start=1):
        with translated(f"statement {number} of the migration {migration.name}"):
            client.command(statement if cluster is None else replicated(statement, cluster))
    with translated(f"recording the migration {migration.name}"):
        client.insert(
            "schema_migrations",
            [[migration.name, migration.checksum]],
            column_names=["name", "checksum"],
        )
