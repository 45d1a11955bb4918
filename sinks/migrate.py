"""Ordered, checksummed SQL migrations.

Files are named `NNNN_name.sql` and applied in order, once. A statement must be safe to repeat
(IF NOT EXISTS): a process that dies between a file and its record applies the file again. A file
that was applied is never edited; a change is a new file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from importlib import resources
from typing import NamedTuple

from clickhouse_connect.driver.client import Client

from collector.errors import PermanentDependencyError
from sinks.connection import WRITER_SETTINGS, connect, translated

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


def migrate(
    client: Client, *, dry_run: bool = False, migrations: Iterable[Migration] | None = None
) -> list[str]:
    """Bring the database up to date.

    Args:
        client: an open client; nothing else may migrate at the same time.
        dry_run: only say what would be applied; the database is left untouched.
        migrations: which ones; those of this version by default.

    Returns:
        Names of the migrations applied now (or to apply), in order.

    Raises:
        PermanentDependencyError: see `pending`, or a statement was refused.
        TransientDependencyError: the database does not answer now.
    """
    todo = pending(_applied(client), packaged() if migrations is None else migrations)
    if dry_run:
        return [migration.name for migration in todo]
    with translated("creating schema_migrations"):
        client.command(_LEDGER)
    for migration in todo:
        _apply(client, migration)
    return [migration.name for migration in todo]


def migrate_url(url: str, *, dry_run: bool = False) -> list[str]:
    """Bring the database behind `url` up to date; see `migrate`."""
    client = connect(url, WRITER_SETTINGS)
    try:
        return migrate(client, dry_run=dry_run)
    finally:
        client.close()


def _applied(client: Client) -> dict[str, str]:
    with translated("reading schema_migrations"):
        if not int(str(client.command("EXISTS TABLE schema_migrations"))):
            return {}
        result = client.query("SELECT name, checksum FROM schema_migrations FINAL")
    return {str(name): str(checksum) for name, checksum in result.result_rows}


def _apply(client: Client, migration: Migration) -> None:
    for number, statement in enumerate(migration.statements, start=1):
        with translated(f"statement {number} of the migration {migration.name}"):
            client.command(statement)
    with translated(f"recording the migration {migration.name}"):
        client.insert(
            "schema_migrations",
            [[migration.name, migration.checksum]],
            column_names=["name", "checksum"],
        )
