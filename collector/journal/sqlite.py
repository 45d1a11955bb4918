"""The embedded journal: one SQLite file, appended by one thread, many appends to a commit.

An append costs a sync of the disk; appends that arrive while the disk syncs share the next one.
So one producer waits for its own sync, and 64 producers are served by a few dozen of them.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from collector.config import JournalConfig
from collector.errors import GroundwatchError, Overloaded, TransientDependencyError
from collector.journal.sqlite_consumer import SqliteConsumer
from collector.journal.sqlite_file import JournalFile, Row
from collector.ports import JUDGE, Consumer, Entry, Record
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, SystemClock

GROUP_BYTES = 16 * 1024 * 1024
"""Bodies enough for one commit; more in it would only make acknowledgements late."""

PENDING_BYTES = 128 * 1024 * 1024
"""Bodies held in memory until they are written; beyond that senders are told to wait."""

ROW_BYTES = 200
"""Rough cost of a row beside its body."""

TRIM_ROWS = 256
UNTIDY_SECONDS = 0.2
"""How soon the writer looks again when it could not tidy up."""


_T = TypeVar("_T")


class _Append(NamedTuple):
    rows: list[Row]
    size: int
    done: asyncio.Future[int]


class _Advance(NamedTuple):
    topic: str
    group: str
    next_offset: int
    done: asyncio.Future[int]


class SqliteJournal:
    """A `collector.ports.Journal` in one file. Partition 0 is the only one.

    All its coroutines belong to the event loop it was opened in. A record is deleted once every
    consumer group that ever joined its topic has committed past it; without a group it stays.
    """

    def __init__(
        self,
        file: JournalFile,
        path: Path,
        config: JournalConfig,
        metrics: Metrics | None,
        clock: Clock,
    ) -> None:
        """Take over an open file; use `open` instead."""
        self._file = file
        self._path = path
        self._config = config
        self._metrics = metrics
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._log = RateLimitedLog()
        self._closed = False
        # Owned by the loop.
        self._pending_bytes = 0
        self._last_offsets = file.last_offsets()
        self._members: dict[tuple[str, str], list[SqliteConsumer]] = {}
        # Written by the writing thread, read anywhere.
        self._positions = file.positions()
        self._trimmed: dict[str, int] = {}
        self._used_bytes = file.used_bytes()
        self._wal_small = True

        self._queue: queue.SimpleQueue[_Append | _Advance | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(1, "journal-reader")
        self._writer = threading.Thread(target=self._write, name="journal-writer", daemon=True)
        if metrics is not None:
            metrics.journal_bytes.set(self._used_bytes)
            metrics.journal_bytes_capacity.set(config.max_bytes)
        self._writer.start()

    @classmethod
    async def open(
        cls,
        path: Path,
        config: JournalConfig,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        *,
        forgets: bool = False,
    ) -> SqliteJournal:
        """Open the journal at `path`, or create it.

        Args:
            path: the file.
            config: its bounds.
            metrics: where its size is shown.
            clock: the time.
            forgets: whether what is deleted is overwritten, within seconds. It costs writing it
                once more.

        Raises:
            PermanentDependencyError: another process holds it, or the file cannot be used.
        """
        bound = with_room_for_tasks(config.max_bytes)
        file = await asyncio.to_thread(JournalFile, path, bound, forgets=forgets)
        return cls(file, path, config, metrics, clock or SystemClock())

    async def append(self, entries: Sequence[Entry]) -> None:
        """See `collector.ports.Journal.append`."""
        if not entries:
            return
        now = self._clock.now().timestamp()
        rows = [Row(entry.topic, entry.kind, entry.key, now, entry.body) for entry in entries]
        size = sum(len(row.body) + ROW_BYTES for row in rows)
        self._admit(size, own=all(entry.topic == JUDGE for entry in entries))
        done: asyncio.Future[int] = self._loop.create_future()
        self._pending_bytes += size
        self._queue.put(_Append(rows, size, done))
        await done

    async def consumer(self, topic: str, group: str) -> Consumer:
        """Join a consumer group; one member at a time is given records, the others wait.

        A group seen for the first time starts at the oldest record that is still there.
        """
        position = await self.advance(topic, group, 0)
        members = self._members.setdefault((topic, group), [])
        member = SqliteConsumer(self, topic, group)
        members.append(member)
        if members == [member]:
            member.take_over(position)
        return member

    async def close(self) -> None:
        """Write what was accepted and release the file. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for members in self._members.values():
            for member in list(members):
                await member.close()
        self._queue.put(None)
        await asyncio.to_thread(self._writer.join)
        await asyncio.to_thread(self._readers.shutdown)
        await asyncio.to_thread(self._file.close)

    # --- for its consumers ---

    async def advance(self, topic: str, group: str, next_offset: int) -> int:
        """Durably move a group's position forward and return where it is."""
        self._check_open()
        done: asyncio.Future[int] = self._loop.create_future()
        self._queue.put(_Advance(topic, group, next_offset, done))
        try:
            return await done
        except Overloaded as err:
            raise TransientDependencyError(f"{self._path}: {err}") from err

    async def read(self, topic: str, start: int, max_records: int) -> list[Record]:
        """Return records from offset `start` on; [] without a look at the disk if none can be."""
        self._check_open()
        if self._last_offsets.get(topic, 0) < start:
            return []
        return await self._loop.run_in_executor(
            self._readers, self._file.read, topic, start, max_records
        )

    async def backlog(self, topic: str, group: str) -> tuple[int, float]:
        """Return count of uncommitted records of a group and the age in seconds of the oldest."""
        self._check_open()
        count, since = await self._loop.run_in_executor(
            self._readers, self._file.backlog, topic, self._positions[topic, group]
        )
        age = 0.0 if since is None else max(0.0, self._clock.now().timestamp() - since)
        if self._metrics is not None:
            self._metrics.journal_lag_records.labels(topic).set(count)
            self._metrics.journal_lag_seconds.labels(topic).set(age)
        return count, age

    def leave(self, member: SqliteConsumer) -> None:
        """Take a member out of its group; the next one goes on from the committed position."""
        members = self._members[member.topic, member.group]
        members.remove(member)
        if members:
            members[0].take_over(self._positions[member.topic, member.group])

    def _check_open(self) -> None:
        if self._closed:
            raise TransientDependencyError(f"{self._path}: the journal is closed")

    def _admit(self, size: int, *, own: bool) -> None:
        """Refuse what would not fit, before anything is written.

        A full disk cannot even be trimmed, so we never wait until it is. Our own judge tasks have
        room above the senders' bound: telemetry is only released once its tasks are in, so at one
        common bound a full journal could never drain.
        """
        self._check_open()
        waiting = self._pending_bytes
        if own:
            if self._used_bytes + waiting + size > with_room_for_tasks(self._config.max_bytes):
                raise Overloaded("journal")
            return
        if self._used_bytes + waiting + size > self._config.max_bytes or not self._wal_small:
            raise Overloaded("journal")
        if waiting and waiting + size > PENDING_BYTES:
            raise Overloaded("journal", retry_after_seconds=1.0)
        disk = os.statvfs(self._path.parent)
        if disk.f_bavail * disk.f_frsize - waiting - size < self._config.min_free_disk_bytes:
            raise Overloaded("disk", retry_after_seconds=30.0)

    # --- the writing thread ---

    def _write(self) -> None:
        """Serve the queue until told to stop. Nothing may end this loop but that."""
        wait: float | None = None
        stopping = False
        while not stopping:
            advances, appends, stopping = self._take(wait)
            for work in advances:
                self._advance(work)
            if appends:
                self._append(appends)
            wait = self._tidy(rows=sum(len(work.rows) for work in appends))

    def _take(self, wait: float | None) -> tuple[list[_Advance], list[_Append], bool]:
        """Return the work that waits, until it makes a group, and whether the end was reached."""
        advances: list[_Advance] = []
        appends: list[_Append] = []
        size = 0
        try:
            work = self._queue.get(timeout=wait)
            while work is not None:
                if isinstance(work, _Append):
                    appends.append(work)
                    size += work.size
                else:
                    advances.append(work)
                if size >= GROUP_BYTES:
                    return advances, appends, False
                work = self._queue.get_nowait()
        except queue.Empty:
            return advances, appends, False
        return advances, appends, True

    def _append(self, group: list[_Append]) -> None:
        """Write a group in one commit. If that fails, it fails for all of the group."""
        rows = [row for work in group for row in work.rows]
        outcome = self._attempt(lambda: self._file.append(rows))
        self._measure()
        self._on_loop(lambda: self._settle(group, outcome))

    def _settle(self, group: list[_Append], outcome: int | GroundwatchError) -> None:
        """On the loop: answer those who wait for their append, and wake those who read."""
        self._pending_bytes -= sum(work.size for work in group)
        for work in group:
            _answer(work.done, outcome)
        if isinstance(outcome, GroundwatchError):
            return
        topics = {row.topic for work in group for row in work.rows}
        self._last_offsets.update(dict.fromkeys(topics, outcome))
        for (topic, _), members in self._members.items():
            if topic in topics and members:
                members[0].wake()

    def _advance(self, work: _Advance) -> None:
        """Write a position, in a commit of its own: it must work where appends are refused."""
        outcome = self._attempt(
            lambda: self._file.advance(work.topic, work.group, work.next_offset)
        )
        if not isinstance(outcome, GroundwatchError):
            self._positions[work.topic, work.group] = outcome
        self._on_loop(lambda: _answer(work.done, outcome))

    def _tidy(self, rows: int) -> float | None:
        """Do one step of housekeeping; return how soon the next is due, None if all is tidy.

        Args:
            rows: how many were just appended; trimming keeps ahead of them.
        """
        outcome = self._attempt(lambda: self._trim(max(TRIM_ROWS, 2 * rows)))
        if outcome is False and self._queue.empty():
            outcome = self._attempt(self._file.give_back)
        wal_small = self._attempt(self._file.shrink_wal)
        self._wal_small = wal_small is True
        self._measure()
        for failure in (outcome, wal_small):
            if isinstance(failure, GroundwatchError):
                self._log.warning("journal_untidy", error=str(failure))
                return UNTIDY_SECONDS
        if not self._wal_small:
            return UNTIDY_SECONDS
        return 0.0 if outcome else self._file.seconds_to_forget()

    def _trim(self, max_rows: int) -> bool:
        """Delete some records that every group is done with; return whether more are left."""
        floors: dict[str, int] = {}
        for (topic, _), position in self._positions.items():
            floors[topic] = min(position, floors.get(topic, position))
        for topic, floor in floors.items():
            if self._trimmed.get(topic, -1) >= floor:
                continue
            if self._file.trim(topic, floor, max_rows):
                return True
            self._trimmed[topic] = floor
        return False

    def _measure(self) -> None:
        used = self._attempt(self._file.used_bytes)
        if isinstance(used, GroundwatchError):
            return
        self._used_bytes = used
        if self._metrics is not None:
            self._metrics.journal_bytes.set(used)

    def _attempt(self, action: Callable[[], _T]) -> _T | GroundwatchError:
        """Return any failure as a value: the writing thread must live, somebody waits for it."""
        try:
            return action()
        except GroundwatchError as err:
            return err
        except Exception as err:
            return TransientDependencyError(f"{self._path}: {type(err).__name__}")

    def _on_loop(self, action: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is gone, and with it all who waited
            self._loop.call_soon_threadsafe(action)


def _answer(waiting: asyncio.Future[int], outcome: int | GroundwatchError) -> None:
    if waiting.done():  # whoever waited was cancelled
        return
    if isinstance(outcome, GroundwatchError):
        waiting.set_exception(outcome)
    else:
        waiting.set_result(outcome)


def with_room_for_tasks(max_bytes: int) -> int:
    """Return the hard bound of the file, for senders and for our own judge tasks."""
    return max_bytes + max_bytes // 4
