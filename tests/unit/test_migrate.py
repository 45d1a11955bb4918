from __future__ import annotations

import hashlib
import re

import pytest

from collector.errors import PermanentDependencyError
from sinks.migrate import Migration, packaged, pending, replicated

FIRST = Migration("0001_first", "CREATE TABLE a;\n")
SECOND = Migration("0002_second", "CREATE TABLE b;\n")


def test_migrations_that_are_not_applied_come_in_order() -> None:
    assert pending({}, [SECOND, FIRST]) == [FIRST, SECOND]
    assert pending({FIRST.name: FIRST.checksum}, [FIRST, SECOND]) == [SECOND]


def test_a_file_that_was_changed_after_it_was_applied_is_refused() -> None:
    changed = Migration(FIRST.name, "CREATE TABLE a2;\n")
    with pytest.raises(PermanentDependencyError, match="0001_first was changed after") as caught:
        pending({FIRST.name: FIRST.checksum}, [changed, SECOND])
    assert "put the change into a new one" in str(caught.value)


def test_a_database_of_a_newer_version_is_refused() -> None:
    applied = {FIRST.name: FIRST.checksum, "0009_later": "abc"}
    with pytest.raises(PermanentDependencyError, match=r"0009_later .* upgrade this one"):
        pending(applied, [FIRST])


def test_a_checksum_is_the_sha256_of_the_text_whatever_its_line_ends() -> None:
    assert FIRST.checksum == hashlib.sha256(b"CREATE TABLE a;\n").hexdigest()
    assert Migration("x", "a;\r\nb;\r\n").checksum == Migration("x", "a;\nb;\n").checksum


def test_statements_end_at_a_semicolon_that_ends_a_line() -> None:
    text = "-- a comment; with one\nSELECT ';' AS a;\n\n  -- more\nSELECT 2\n;\nSELECT 3"
    assert Migration("x", text).statements == ["SELECT ';' AS a", "SELECT 2", "SELECT 3"]


def test_packaged_migrations_are_numbered_without_gaps_and_safe_to_repeat() -> None:
    migrations = packaged()
    numbers = [int(migration.name[:4]) for migration in migrations]
    assert numbers == list(range(1, len(numbers) + 1))
    for migration in migrations:
        for statement in migration.statements:
            assert re.match(
                r"(CREATE TABLE|ALTER TABLE \w+ ADD \w+) IF NOT EXISTS\s|"
                r"ALTER TABLE \w+ MATERIALIZE COLUMN ",
                statement,
            )


def test_on_a_cluster_tables_are_made_everywhere_and_replicated() -> None:
    assert replicated(
        "CREATE TABLE IF NOT EXISTS a (\n  ENGINE String\n)\n"
        "ENGINE = ReplacingMergeTree(version)\nORDER BY ENGINE",
        "main",
    ) == (
        "CREATE TABLE IF NOT EXISTS a ON CLUSTER `main` (\n  ENGINE String\n)\n"
        "ENGINE = ReplicatedReplacingMergeTree(version)\nORDER BY ENGINE"
    )


def test_a_replicated_table_passes_its_changes_on_by_itself() -> None:
    statement = "ALTER TABLE a ADD COLUMN IF NOT EXISTS b String"
    assert replicated(statement, "main") == statement


def test_the_name_of_a_cluster_cannot_end_its_quotes() -> None:
    statement = "CREATE TABLE IF NOT EXISTS a (b String)\nENGINE = MergeTree\nORDER BY b"
    assert " ON CLUSTER `x\\`; DROP \\\\` (b" in replicated(statement, "x`; DROP \\")
