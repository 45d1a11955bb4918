"""Calls that are made in batches, in a SQLite file of one agent.

Bodies and answers hold texts of users. A body is deleted when it is sent, an answer a while after
its judgement is done; what is deleted is overwritten.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from collector.errors import PermanentDependencyError, TransientDependencyError
from collector.ports import BatchAnswer
from sinks.sqlite import transaction

_KEPT = timedelta(days=4)
"""For answers that nobody asks for: longer than any task waits."""

_SCHEMA = """
create table if not exists call(
  key text primary key, at real not null, body blob, batch text, status integer, answer blob,
  finished real
);
create index if not exists call_by_batch on call(batch);
create table if not exists batch(name text primary key, batch_id text, reservation text);
"""

_T = TypeVar("_T")


class SqliteBatchCalls:
    """`collector.ports.BatchCalls` on a SQLite file."""

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            PermanentDependencyError: it cannot be opened.
        """
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            for setting in ("journal_mode=wal", "synchronous=full", "secure_delete=on"):
                self._db.execute(f"pragma {setting}").fetchall()
            self._db.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as err:
            raise PermanentDependencyError(
                f"{path}: the record of batches cannot be opened: {err}; the folder must be "
                "writable, on a local disk"
            ) from err

    async def answer(self, key: str) -> BatchAnswer | None:
        """See `BatchCalls.answer`."""
        return await self._run(partial(self._answer, key))

    async def add(self, key: str, body: bytes, at: datetime, *, again: bool = False) -> None:
        """See `BatchCalls.add`."""
        await self._write(
            "insert into call(key, at, body) values (?, ?, ?) on conflict(key) do update set "
            "at=excluded.at, body=excluded.body, status=null, answer=null, finished=null "
            "where call.status is not null and ?",
            (key, at.timestamp(), body, again),
        )

    async def take(self, since: datetime, most: int) -> list[tuple[str, bytes]]:
        """See `BatchCalls.take`."""
        return await self._run(partial(self._take, since, most))

    async def sending(self, batch: str, keys: Sequence[str]) -> None:
        """See `BatchCalls.sending`."""
        await self._run(partial(self._sending, batch, keys))

    async def sent(self, batch: str, batch_id: str, reservation: str | None) -> None:
        """See `BatchCalls.sent`."""
        await self._write(
            "update batch set batch_id=?, reservation=? where name=?",
            (batch_id, reservation, batch),
        )
        await self._write("update call set body=null where batch=?", (batch,))

    async def not_sent(self, batch: str) -> None:
        """See `BatchCalls.not_sent`."""
        await self._run(partial(self._not_sent, batch))

    async def batches(self) -> list[tuple[str, str | None, str | None]]:
        """See `BatchCalls.batches`."""
        sql = "select name, batch_id, reservation from batch"
        return await self._run(lambda: self._db.execute(sql).fetchall())

    async def ended(self, batch: str, answers: Mapping[str, BatchAnswer]) -> None:
        """See `BatchCalls.ended`."""
        await self._run(partial(self._ended, batch, answers))

    async def finished(self, keys: Sequence[str], at: datetime) -> None:
        """See `BatchCalls.finished`."""
        pairs = [(at.timestamp(), key) for key in keys]
        sql = "update call set finished=? where key=?"
        await self._run(lambda: self._db.executemany(sql, pairs))

    async def forget(self, before: datetime) -> None:
        """See `BatchCalls.forget`."""
        await self._write(
            "delete from call where batch is null and (finished<? or at<?)",
            (before.timestamp(), (before - _KEPT).timestamp()),
        )

    async def close(self) -> None:
        """See `BatchCalls.close`."""
        await asyncio.to_thread(self._thread.shutdown)
        self._db.close()

    async def _run(self, call: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except sqlite3.Error as err:
            raise TransientDependencyError(f"{self._path}: {err}") from err

    async def _write(self, sql: str, values: tuple[object, ...]) -> None:
        await self._run(lambda: self._db.execute(sql, values).fetchall())

    def _answer(self, key: str) -> BatchAnswer | None:
        row = self._db.execute("select status, answer from call where key=?", (key,)).fetchone()
        return None if row is None or row[0] is None else BatchAnswer(*row)

    def _take(self, since: datetime, most: int) -> list[tuple[str, bytes]]:
        waiting = "from call where batch is null and status is null"
        (oldest,) = self._db.execute(f"select min(at) {waiting}").fetchone()
        if oldest is None or oldest > since.timestamp():
            return []
        sql = f"select key, body {waiting} order by at limit ?"
        return self._db.execute(sql, (most,)).fetchall()

    def _sending(self, batch: str, keys: Sequence[str]) -> None:
        with transaction(self._db) as db:
            db.execute("insert into batch(name) values (?)", (batch,))
            pairs = [(batch, key) for key in keys]
            db.executemany("update call set batch=? where key=?", pairs)

    def _not_sent(self, batch: str) -> None:
        with transaction(self._db) as db:
            db.execute("update call set batch=null where batch=?", (batch,))
            db.execute("delete from batch where name=?", (batch,))

    def _ended(self, batch: str, answers: Mapping[str, BatchAnswer]) -> None:
        with transaction(self._db) as db:
            db.executemany(
                "update call set status=?, answer=? where key=? and batch=?",
                [(answer.status, answer.body, key, batch) for key, answer in answers.items()],
            )
            db.execute(
                "update call set batch=null, status=coalesce(status, 0), "
                "answer=coalesce(answer, x'') where batch=?",
                (batch,),
            )
            db.execute("delete from batch where name=?", (batch,))
