"""The SQLite file behind the embedded journal: blocking calls, one writer and one reader.

Every setting here was measured; those that look odd carry their reason.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from collector.errors import (
    DependencyError,
    Overloaded,
    PermanentDependencyError,
    TransientDependencyError,
)
from collector.ports import Position, Record

PAGE_BYTES = 8192
WAL_LIMIT_BYTES = 64 * 1024 * 1024
RESERVE_PAGES = 1024
"""Pages above the bound, so that positions can still be written and rows deleted at it."""

READ_BYTES = 32 * 1024 * 1024
TRIM_BYTES = 16 * 1024 * 1024
VACUUM_PAGES = 500
KEPT_FREE_PAGES = 4096
"""Free pages are reused; only what is beyond these and a quarter of the file is given back."""

FORGET_SECONDS = 2.0
"""How long the log may keep what was deleted, where it must be forgotten."""

APPLICATION_ID = 0x67776A31
"""Marks the file as a journal of this layout ("gwj1")."""

SCHEMA = f"""
begin immediate;
create table entry(
  off integer primary key autoincrement,
  topic text not null, kind text not null, key text not null, at real not null, body blob not null
);
create index entry_by_topic on entry(topic, off);
create table position(
  topic text not null, consumer_group text not null, next integer not null,
  primary key (topic, consumer_group)
) without rowid;
pragma application_id = {APPLICATION_ID};
commit;
"""


class Row(NamedTuple):
    """One entry as inserted; `at` is Unix seconds."""

    topic: str
    kind: str
    key: str
    at: float
    body: bytes


class JournalFile:
    """An open journal file. Writing methods belong to one thread, reading ones to another.

    Each raises Overloaded where the file is full (then nothing was changed),
    PermanentDependencyError where it is damaged, else TransientDependencyError.
    """

    def __init__(self, path: Path, max_bytes: int, *, forgets: bool = False) -> None:
        """Open or create the file, and hold it alone until `close`.

        Args:
            path: the file.
            max_bytes: its bound.
            forgets: whether what is deleted is overwritten, also in the log.

        Raises:
            PermanentDependencyError: held by another process, unreadable, or not a journal; the
                message names the file and the cure.
        """
        self._path = path
        self._wal = path.with_name(path.name + "-wal")
        self._forgets = forgets
        self._log_emptied_at = time.monotonic()
        self._lock = _lock(path)
        try:
            _keep_private(path)
            self._writer = _connect(path)
            _prepare(self._writer, path, max_bytes)
            self._writer.execute(f"pragma secure_delete={int(forgets)}").fetchall()
            self._reader = _connect(path)
            self._reader.execute("pragma query_only=1")
        except sqlite3.Error as err:
            os.close(self._lock)
            raise _unusable(path, err) from err
        except PermanentDependencyError:
            os.close(self._lock)
            raise

    # --- called by the writing thread ---

    def append(self, rows: Iterable[Row]) -> int:
        """Insert the rows in one durable transaction and return the last offset given out."""
        with _transaction(self._writer, self._path) as db:
            db.executemany(
                "insert into entry(topic, kind, key, at, body) values (?, ?, ?, ?, ?)", rows
            )
            (last,) = db.execute("select seq from sqlite_sequence where name='entry'").fetchone()
        return int(last)

    def advance(self, topic: str, group: str, next_offset: int) -> int:
        """Durably move a group's position forward, never back, and return where it is now."""
        with _transaction(self._writer, self._path) as db:
            (position,) = db.execute(
                "insert into position values (?, ?, ?) on conflict do update "
                "set next = max(next, excluded.next) returning next",
                (topic, group, next_offset),
            ).fetchall()[0]
        return int(position)

    def trim(self, topic: str, floor: int, max_rows: int) -> bool:
        """Delete some of the oldest rows of `topic` below `floor`; return whether more are left.

        Small steps on purpose: freeing a gigabyte in one go blocks appends for seconds.
        """
        with _transaction(self._writer, self._path) as db:
            rows = db.execute(
                "select off, length(body) from entry where topic=? and off<? order by off limit ?",
                (topic, floor, max_rows),
            ).fetchall()
            kept_from = size = 0
            for offset, length in rows:
                kept_from, size = offset + 1, size + length
                if size >= TRIM_BYTES:
                    break
            db.execute("delete from entry where topic=? and off<?", (topic, kept_from))
        return size >= TRIM_BYTES or len(rows) == max_rows

    def give_back(self) -> bool:
        """Return some free pages to the file system; return whether more should follow."""
        if not self._has_spare_pages():
            return False
        with _translated(self._path):
            # `execute` would free a single page, whatever the number says.
            self._writer.executescript(f"pragma incremental_vacuum({VACUUM_PAGES})")
            if self._has_spare_pages():
                return True
            # The file itself is cut only when the log is folded in.
            self._writer.execute("pragma wal_checkpoint(passive)").fetchall()
        return False

    def shrink_wal(self) -> bool:
        """Fold the write-ahead log in where it is large; return whether it is small now.

        No bound of SQLite limits the log: it grows for as long as a reader holds it.
        """
        due = self.seconds_to_forget() == 0.0
        if self._wal_bytes() > WAL_LIMIT_BYTES or due:
            self._log_emptied_at = time.monotonic()
            with suppress(sqlite3.Error):  # a reader is in the way: the next turn tries again
                self._writer.execute("pragma busy_timeout=200")
                self._writer.execute("pragma wal_checkpoint(truncate)").fetchall()
            self._writer.execute("pragma busy_timeout=5000")
        return self._wal_bytes() <= WAL_LIMIT_BYTES

    def seconds_to_forget(self) -> float | None:
        """Return how soon the log has to be folded in for what it holds; None if it need not be.

        Deleting overwrites pages of the file only; the log keeps what they were.
        """
        if not self._forgets or not self._wal_bytes():
            return None
        return max(0.0, self._log_emptied_at + FORGET_SECONDS - time.monotonic())

    def used_bytes(self) -> int:
        """Return the bytes that hold entries, free pages left out."""
        pages, free = self._pages()
        return (pages - free) * PAGE_BYTES

    def last_offsets(self) -> dict[str, int]:
        """Return the highest offset stored of each topic that holds anything."""
        return dict(self._query(self._writer, "select topic, max(off) from entry group by topic"))

    def positions(self) -> dict[tuple[str, str], int]:
        """Return the committed position by topic and group."""
        found = self._query(self._writer, "select topic, consumer_group, next from position")
        return {(topic, group): next_offset for topic, group, next_offset in found}

    def close(self) -> None:
        """Fold the log in where possible, and let go of the file."""
        self._reader.close()
        with suppress(sqlite3.Error):  # then it is folded in at the next start
            self._writer.execute("pragma wal_checkpoint(truncate)").fetchall()
        self._writer.close()
        os.close(self._lock)

    # --- called by the reading thread ---

    def read(self, topic: str, start: int, max_records: int) -> list[Record]:
        """Return records from offset `start` on; fewer than asked for where they are large."""
        records: list[Record] = []
        size = 0
        rows = "select off, kind, key, body, at from entry where topic=? and off>=? order by off"
        # Closed before we return: an open cursor would keep the log from being folded in.
        with _translated(self._path), closing(self._reader.execute(rows, (topic, start))) as found:
            while len(records) < max_records and size < READ_BYTES:
                row = found.fetchone()
                if row is None:
                    break
                offset, kind, key, body, at = row
                records.append(Record(Position(0, offset), kind, key, body, at))
                size += len(body)
        return records

    def backlog(self, topic: str, start: int) -> tuple[int, float | None]:
        """Return how many records lie at or after `start`, and when the first was appended."""
        count = self._query(
            self._reader, "select count(*) from entry where topic=? and off>=?", topic, start
        )[0][0]
        first = self._query(
            self._reader,
            "select at from entry where topic=? and off>=? order by off limit 1",
            topic,
            start,
        )
        return count, first[0][0] if first else None

    def _query(self, db: sqlite3.Connection, sql: str, *parameters: object) -> list[Any]:
        with _translated(self._path):
            return db.execute(sql, parameters).fetchall()

    def _pages(self) -> tuple[int, int]:
        pages = self._query(self._writer, "pragma page_count")[0][0]
        free = self._query(self._writer, "pragma freelist_count")[0][0]
        return pages, free

    def _has_spare_pages(self) -> bool:
        pages, free = self._pages()
        return free > max(KEPT_FREE_PAGES, pages // 4)

    def _wal_bytes(self) -> int:
        try:
            return self._wal.stat().st_size
        except FileNotFoundError:
            return 0


def _lock(path: Path) -> int:
    """Hold the journal for this process. The system lets go when the process dies, however."""
    lock_path = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as err:
        raise PermanentDependencyError(
            f"{lock_path}: cannot be written: {err.strerror}; give this user the right to write "
            "there, or set data_dir to another folder"
        ) from err
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        os.close(lock)
        raise PermanentDependencyError(
            f"{path}: another groundwatch process holds this journal; stop that process, or give "
            "this one a data_dir of its own"
        ) from err
    return lock


def _keep_private(path: Path) -> None:
    """Make the file its owner's alone: it holds texts of users. Its companions follow it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        for file in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            if file.exists():
                file.chmod(0o600)
    except OSError as err:
        raise PermanentDependencyError(
            f"{path}: cannot be opened: {err.strerror}; it must be a file of this user's"
        ) from err


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)


def _prepare(db: sqlite3.Connection, path: Path, max_bytes: int) -> None:
    """Set the file up, and lay out a new one."""
    (application,) = db.execute("pragma application_id").fetchone()
    (tables,) = db.execute("select count(*) from sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        raise PermanentDependencyError(
            f"{path}: is a database, but not a journal this version can read; move it elsewhere, "
            "or set data_dir to another folder"
        )
    settings = (
        f"page_size={PAGE_BYTES}",
        "auto_vacuum=incremental",  # before WAL: afterwards it stays off, without an error
        "journal_mode=wal",
        "synchronous=full",  # what is acknowledged survives a power cut
        "wal_autocheckpoint=2000",
        f"journal_size_limit={WAL_LIMIT_BYTES}",
        # A full disk cannot be trimmed, a file at this cap can.
        f"max_page_count={max_bytes // PAGE_BYTES + RESERVE_PAGES}",
    )
    for setting in settings:
        db.execute(f"pragma {setting}").fetchall()
    if not tables:
        db.executescript(SCHEMA)


def _unusable(path: Path, err: sqlite3.Error) -> PermanentDependencyError:
    if _code(err) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return PermanentDependencyError(_damaged(path, err))
    return PermanentDependencyError(
        f"{path}: cannot be opened: {err}; the folder must be writable, on a local disk that is "
        "not full"
    )


def _damaged(path: Path, err: sqlite3.Error) -> str:
    return (
        f"{path}: the journal is damaged: {err}; move it and its -wal and -shm files aside and "
        "start again with an empty one: what it held and was not yet processed is lost"
    )


def _code(err: sqlite3.Error) -> int:
    """Return the primary result code; 0 for errors the Python module raises by itself."""
    return getattr(err, "sqlite_errorcode", 0) & 0xFF


def _translate(err: sqlite3.Error, path: Path) -> DependencyError | Overloaded:
    code = _code(err)
    if code == sqlite3.SQLITE_FULL:
        return Overloaded("journal")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return PermanentDependencyError(_damaged(path, err))
    return TransientDependencyError(f"{path}: {err}")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as err:
        raise _translate(err, path) from err


@contextmanager
def _transaction(db: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """Commit what is done inside, or undo all of it."""
    with _translated(path):
        try:
            if db.in_transaction:  # an earlier undo failed
                db.execute("rollback")
            db.execute("begin immediate")
            yield db
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                with suppress(sqlite3.Error):  # the first error is the one to report
                    db.execute("rollback")
            raise
