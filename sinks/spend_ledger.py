"""Money spent on judging, in a SQLite file that several processes of one machine may share.

SQLite rather than ClickHouse: to check a limit and set money aside has to be one step.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from collector.errors import PermanentDependencyError, TransientDependencyError
from collector.ports import Spending
from sinks.sqlite import transaction

_APPLICATION_ID = 0x67777331
"""Marks the file as a ledger of this layout ("gws1")."""

_SLOT_SECONDS = 300
_KEPT_DAYS = 31

_SCHEMA = f"""
begin immediate;
create table if not exists reserved(id text primary key, slot integer not null, usd real not null);
create table if not exists spent(slot integer primary key, usd real not null);
pragma application_id = {_APPLICATION_ID};
commit;
"""

_T = TypeVar("_T")


class SpendLedger:
    """`collector.ports.Ledger` on a SQLite file."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db = db
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spend")

    @classmethod
    async def open(cls, path: Path) -> SpendLedger:
        """Open or create the file.

        Raises:
            PermanentDependencyError: it cannot be opened, or is something else.
        """
        return await asyncio.to_thread(cls._open, path)

    @classmethod
    def _open(cls, path: Path) -> SpendLedger:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
            _prepare(db, path)
        except (OSError, sqlite3.Error) as err:
            raise PermanentDependencyError(
                f"{path}: the record of spend cannot be opened: {err}; the file must be writable, "
                "on a local disk; set judge.openai.spend_file to another one"
            ) from err
        return cls(db, path)

    async def reserve(
        self,
        usd: float,
        limit_usd: float | None,
        at: datetime,
        *,
        lasting: bool = False,
    ) -> str | None:
        """See `Ledger.reserve`."""
        return await self._run(partial(self._reserve, usd, limit_usd, at))

    async def settle(self, reservation: str, usd: float) -> None:
        """See `Ledger.settle`."""
        await self._run(partial(self._settle, reservation, usd))

    async def spending(self, at: datetime) -> Spending:
        """See `Ledger.spending`."""
        return await self._run(partial(self._spending, at))

    async def close(self) -> None:
        """See `Ledger.close`."""
        await asyncio.to_thread(self._thread.shutdown)
        self._db.close()

    async def _run(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _reserve(self, usd: float, limit_usd: float | None, at: datetime) -> str | None:
        reservation = uuid4().hex
        with self._transaction() as db:
            if limit_usd is not None:
                today = _sum(db, "spent", *_day(at)) + _sum(db, "reserved", *_day(at))
                if today + usd > limit_usd:
                    return None
            db.execute("insert into reserved values (?, ?, ?)", (reservation, _slot(at), usd))
        return reservation

    def _settle(self, reservation: str, usd: float) -> None:
        with self._transaction() as db:
            gone = "delete from reserved where id=? returning slot"
            for (slot,) in db.execute(gone, (reservation,)).fetchall():
                db.execute(
                    "insert into spent values (?, ?) "
                    "on conflict do update set usd = usd + excluded.usd",
                    (slot, usd),
                )

    def _spending(self, at: datetime) -> Spending:
        with self._transaction() as db:
            hour = _slot(at) - 3600 // _SLOT_SECONDS + 1, _slot(at) + 1
            return Spending(
                today_usd=_sum(db, "spent", *_day(at)),
                reserved_usd=_sum(db, "reserved", *_day(at)),
                last_hour_usd=_sum(db, "spent", *hour),
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what is done inside, alone among all processes, or undo it."""
        try:
            with transaction(self._db) as db:
                yield db
        except sqlite3.Error as err:
            raise TransientDependencyError(f"{self._path}: {err}") from err


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    (application,) = db.execute("pragma application_id").fetchone()
    (tables,) = db.execute("select count(*) from sqlite_master").fetchone()
    if tables and application != _APPLICATION_ID:
        raise PermanentDependencyError(
            f"{path}: is a database, but no record of spend; set judge.openai.spend_file to "
            "another file"
        )
    db.execute("pragma journal_mode=wal").fetchall()
    # Survives the death of any process. A power cut may forget the last calls: that costs cents,
    # waiting for the disk twice a call would cost most of the throughput.
    db.execute("pragma synchronous=normal")
    db.executescript(_SCHEMA)
    oldest = _slot(datetime.now(UTC) - timedelta(days=_KEPT_DAYS))
    for table in ("spent", "reserved"):
        db.execute(f"delete from {table} where slot<?", (oldest,))  # noqa: S608 - our own names


def _slot(at: datetime) -> int:
    return int(at.timestamp()) // _SLOT_SECONDS


def _day(at: datetime) -> tuple[int, int]:
    """Return the first slot of the UTC day, and the first of the next."""
    midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return _slot(midnight), _slot(midnight + timedelta(days=1))


def _sum(db: sqlite3.Connection, table: str, first: int, end: int) -> float:
    sql = f"select coalesce(sum(usd), 0) from {table} where slot>=? and slot<?"  # noqa: S608
    found: Any = db.execute(sql, (first, end)).fetchone()
    return float(found[0])
