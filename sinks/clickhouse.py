"""The analytical store on ClickHouse: the same code for the embedded engine and a server.

One writer thread and three readers, each with a client of its own, because a client runs one
call at a time. Every write is idempotent: rows are unique by key and version, readers take the
highest version, and no use is made of insert deduplication, which can forget a batch or swallow
its retry when the engine is killed.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import structlog
from clickhouse_connect.driver.client import Client

from collector.candidates import CandidateEvent
from collector.config import StoreConfig
from collector.errors import PermanentDependencyError
from collector.labels import Label
from collector.model import Calibration, Judgement, Signal, StoredRequest
from collector.model_evaluation import EvalRecord
from collector.ports import Fragment, Known
from collector.redaction import Content, storable_judgement, storable_signal
from collector.telemetry import Metrics
from sinks import candidates as candidate_rows
from sinks import evaluation, lookups, signal_lookups, states
from sinks import fragments as fragment_rows
from sinks import labels as label_rows
from sinks import rows as r
from sinks.connection import (
    connect,
    is_embedded,
    measured,
    reader_settings,
    translated,
    writer_settings,
)
from sinks.migrate import migrate
from sinks.named_queries import bind, packaged_queries
from sinks.winding_up import CLOSE_SECONDS, wound_up

_READERS = 3
_MAX_ROWS = 5_000
_MAX_BYTES = 64 * 1024 * 1024
_AGEING_TABLES = ("requests", "judgements", "signals")
"""Tables whose weeks are dropped by age."""

_T = TypeVar("_T")


log = structlog.get_logger()


class _Table(NamedTuple, Generic[_T]):
    """A table that is written: its columns, and how a value becomes a row."""

    name: str
    columns: tuple[str, ...]
    row: Callable[[_T, datetime, str], r.Row]


_REQUESTS = _Table("requests", r.REQUEST_COLUMNS, r.request_row)
_TELEMETRY = _Table("telemetry", r.TELEMETRY_COLUMNS, r.telemetry_row)
_FRAGMENTS = _Table("fragments", fragment_rows.COLUMNS, fragment_rows.row)
_JUDGEMENTS = _Table("judgements", r.JUDGEMENT_COLUMNS, r.judgement_row)
_SIGNALS = _Table("signals", r.SIGNAL_COLUMNS, r.signal_row)


class ClickHouseStore:
    """`collector.ports.Store` on ClickHouse. Open one per process."""

    def __init__(
        self,
        writer: Client,
        readers: Sequence[Client],
        content: Content,
        metrics: Metrics,
        close_seconds: float | None = None,
    ) -> None:
        self._writer = writer
        self._content = content
        self._metrics = metrics
        self._queries = packaged_queries()
        self._readers: queue.SimpleQueue[Client] = queue.SimpleQueue()
        for client in readers:
            self._readers.put(client)
        self._clients = [writer, *readers]
        self._write_thread = ThreadPoolExecutor(1, thread_name_prefix="store-write")
        self._read_threads = ThreadPoolExecutor(len(readers), thread_name_prefix="store-read")
        self._close_seconds = close_seconds
        self._closed = False

    @classmethod
    async def open(cls, url: str, config: StoreConfig, metrics: Metrics) -> ClickHouseStore:
        """Open the store; the embedded one is created and migrated where needed.

        On a server nothing is changed, and a user is enough who may only read.

        Args:
            url: `chdb:///absolute/folder` or `http(s)://user:password@host:port/database`.
            config: the cluster, and what of judgements and signals is kept; requests come as they
                are to be kept, since their tasks do not.
            metrics: where writes are counted.

        Raises:
            PermanentDependencyError: wrong URL, folder held by another process, or a server whose
                tables are not up to date.
            TransientDependencyError: the server does not answer now.
        """
        return await asyncio.to_thread(cls._open, url, config, metrics)

    @classmethod
    def _open(cls, url: str, config: StoreConfig, metrics: Metrics) -> ClickHouseStore:
        clients = [connect(url, writer_settings(config.cluster))]
        try:
            _prepare(clients[0], config, embedded=is_embedded(url))
            settings = reader_settings(config.cluster)
            clients += [connect(url, settings) for _ in range(_READERS)]
        except BaseException:
            for client in clients:
                client.close()
            raise
        # The engine in this process must have ended; a server goes on by itself.
        close_seconds = None if is_embedded(url) else CLOSE_SECONDS
        return cls(clients[0], clients[1:], config.content, metrics, close_seconds)

    async def known(self, trace_ids: Sequence[str]) -> dict[str, Known]:
        """See `Store.known`."""
        return await self._read(partial(lookups.known, trace_ids=trace_ids))

    async def fragments(self, trace_ids: Sequence[str]) -> dict[str, bytes]:
        """See `Store.fragments`."""
        return await self._read(partial(fragment_rows.fullest, trace_ids=trace_ids))

    async def keep_fragments(self, fragments: Sequence[Fragment]) -> None:
        """See `Store.keep_fragments`."""
        await self._write(partial(self._insert_fragments, fragments=fragments))

    async def requests(self, trace_ids: Sequence[str]) -> dict[str, StoredRequest]:
        """See `Store.requests`."""
        return await self._read(partial(lookups.requests, trace_ids=trace_ids))

    async def write_requests(self, rows: Sequence[StoredRequest]) -> None:
        """See `Store.write_requests`."""
        unique = r.newest(rows, lambda row: row.request.trace_id, lambda row: row.version)
        await self._write(partial(self._insert_requests, rows=unique))

    async def write_judgements(
        self, rows: Sequence[Judgement], started_at: dict[str, datetime]
    ) -> None:
        """See `Store.write_judgements`."""
        allowed = [storable_judgement(row, self._content) for row in rows]
        unique = r.newest(allowed, r.judgement_key, r.judgement_rank)
        await self._write(partial(self._insert_judgements, rows=unique, started_at=started_at))

    async def judged_versions(self, trace_ids: Sequence[str], fingerprint: str) -> dict[str, int]:
        """See `Store.judged_versions`."""
        return await self._read(
            partial(lookups.judged_versions, trace_ids=trace_ids, fingerprint=fingerprint)
        )

    async def judgement_of(self, content_hash: str, fingerprint: str) -> Judgement | None:
        """See `Store.judgement_of`."""
        return await self._read(
            partial(lookups.judgement_of, content_hash=content_hash, fingerprint=fingerprint)
        )

    async def write_signals(self, rows: Sequence[Signal]) -> None:
        """See `Store.write_signals`."""
        allowed = [storable_signal(row, self._content) for row in rows]
        unique = r.newest(allowed, lambda row: row.signal_id, r.signal_rank)
        await self._write(partial(self._insert_signals, rows=unique))

    async def signals_with(self, signal_ids: Sequence[str]) -> list[Signal]:
        """See `Store.signals_with`."""
        return await self._read(partial(signal_lookups.signals, signal_ids=signal_ids))

    async def candidates(self, signals: Sequence[Signal], since: datetime) -> list[str]:
        """See `Store.candidates`."""
        return await self._read(
            partial(signal_lookups.candidates, about=list(signals), since=since)
        )

    async def complaints(self, rows: Sequence[StoredRequest], since: datetime) -> list[Signal]:
        """See `Store.complaints`."""
        return await self._read(partial(signal_lookups.complaints, rows=list(rows), since=since))

    async def write_labels(self, labels: Sequence[Label]) -> None:
        """See `Store.write_labels`."""
        await self._write(partial(label_rows.write, labels=labels))

    async def write_candidate_events(self, events: Sequence[CandidateEvent]) -> None:
        """See `Store.write_candidate_events`."""
        await self._write(partial(candidate_rows.write, events=events))

    async def save_state(self, name: str, version: int, body: bytes) -> None:
        """See `Store.save_state`."""
        await self._write(partial(states.save, name=name, version=version, body=body))

    async def state(self, name: str) -> bytes | None:
        """See `Store.state`."""
        return await self._read(partial(states.load, name=name))

    async def write_calibration(self, calibration: Calibration) -> None:
        """See `Store.write_calibration`."""
        await self._write(partial(_insert_calibration, calibration=calibration))

    async def rows(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """See `Store.rows`. Times may be given with or without a zone; without one they are UTC."""
        sql, values = bind(self._queries, query, parameters)
        return await self._read(partial(_rows, name=query, sql=sql, parameters=values))

    async def write_evaluation(self, record: EvalRecord, at: datetime) -> None:
        """See `Store.write_evaluation`."""
        await self._write(partial(evaluation.write, record=record, at=at))

    async def keep_telemetry(self, hours: int) -> None:
        """Let raw spans expire after `hours`."""
        await self._write(partial(_keep_telemetry, hours=hours))

    async def drop_before(self, when: datetime) -> list[str]:
        """Drop every whole week of requests, judgements and signals that ended by `when`.

        Returns:
            What was dropped, as `table week`, the week by the date of its Monday.
        """
        return await self._write(partial(_drop_before, day=r.utc(when).date()))

    async def close(self) -> None:
        """See `Store.close`."""
        if self._closed:
            return
        self._closed = True
        if not await wound_up([self._write_thread, self._read_threads], self._close_seconds):
            log.warning("store_left_silent")
            return
        for client in self._clients:
            await asyncio.to_thread(client.close)

    async def _read(self, call: Callable[[Client], _T]) -> _T:
        return await self._in(self._read_threads, partial(self._with_reader, call))

    async def _write(self, call: Callable[[Client], _T]) -> _T:
        return await self._in(self._write_thread, partial(call, self._writer))

    async def _in(self, pool: ThreadPoolExecutor, call: Callable[[], _T]) -> _T:
        if self._closed:
            raise PermanentDependencyError("store: it is closed")
        return await asyncio.get_running_loop().run_in_executor(pool, call)

    def _with_reader(self, call: Callable[[Client], _T]) -> _T:
        # Taken inside the thread: a caller that is cancelled does not free a client still at work.
        client = self._readers.get()
        try:
            return call(client)
        finally:
            self._readers.put(client)

    def _insert_requests(self, client: Client, rows: Sequence[StoredRequest]) -> None:
        filed = lookups.filing_times(client, [row.request.trace_id for row in rows])
        items = [
            (filed.get(r.text(row.request.trace_id)) or r.filing_time(row), row) for row in rows
        ]
        for batch_id, batch in r.batches(items, r.request_bytes, _MAX_ROWS, _MAX_BYTES):
            # The raw spans first: it is the request row that makes a version known.
            self._insert(
                client, _TELEMETRY, batch_id, [pair for pair in batch if pair[1].telemetry]
            )
            self._insert(client, _REQUESTS, batch_id, batch)

    def _insert_fragments(self, client: Client, fragments: Sequence[Fragment]) -> None:
        items = [(datetime.now(UTC), fragment) for fragment in fragments]
        for batch_id, batch in r.batches(items, fragment_rows.size, _MAX_ROWS, _MAX_BYTES):
            self._insert(client, _FRAGMENTS, batch_id, batch)

    def _insert_judgements(
        self, client: Client, rows: Sequence[Judgement], started_at: dict[str, datetime]
    ) -> None:
        filed = lookups.filing_times(client, [row.trace_id for row in rows])
        now = datetime.now(UTC)  # for a request without times whose row is gone
        items = [
            (
                filed.get(r.text(row.trace_id))
                or started_at.get(row.trace_id)
                or row.judged_at
                or now,
                row,
            )
            for row in rows
        ]
        for batch_id, batch in r.batches(items, r.judgement_bytes, _MAX_ROWS, _MAX_BYTES):
            self._insert(client, _JUDGEMENTS, batch_id, batch)

    def _insert_signals(self, client: Client, rows: Sequence[Signal]) -> None:
        items = [(row.received_at, row) for row in rows]
        for batch_id, batch in r.batches(items, r.signal_bytes, _MAX_ROWS, _MAX_BYTES):
            self._insert(client, _SIGNALS, batch_id, batch)

    def _insert(
        self, client: Client, table: _Table[_T], batch_id: str, batch: Sequence[tuple[datetime, _T]]
    ) -> None:
        """Insert rows of one partition: only such an insert is atomic."""
        if not batch:
            return
        data = [table.row(value, filed_at, batch_id) for filed_at, value in batch]
        with measured(self._metrics, table.name, len(data)), translated(f"writing {table.name}"):
            client.insert(table.name, data, column_names=table.columns)


def _prepare(client: Client, config: StoreConfig, *, embedded: bool) -> None:
    """Bring tables up to date, or check that they are."""
    todo = migrate(client, cluster=config.cluster, dry_run=not embedded)
    if todo and not embedded:
        raise PermanentDependencyError(
            f"store: the tables lack {', '.join(todo)}; run `groundwatch migrate`"
        )


def _keep_telemetry(client: Client, hours: int) -> None:
    """Let raw spans expire after `hours`, where a table says otherwise so far."""
    expression = f"toDateTime(stored_at) + toIntervalHour({hours:d})"
    with translated("setting store.late_spans_hours"):
        tables = client.query(
            "SELECT name, create_table_query FROM system.tables "
            "WHERE database = currentDatabase() AND name IN ('telemetry', 'fragments')"
        )
        for name, created in tables.result_rows:
            if f"TTL {expression} " not in created:
                client.command(
                    f"ALTER TABLE {name} MODIFY TTL {expression}",
                    settings={"materialize_ttl_after_modify": 0},
                )


def _rows(client: Client, name: str, sql: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    with translated(f"the query {name}"):
        return list(client.query(sql, parameters=parameters).named_results())


def _insert_calibration(client: Client, calibration: Calibration) -> None:
    with translated("writing calibrations"):
        client.insert(
            "calibrations",
            [[getattr(calibration, column) for column in r.CALIBRATION_COLUMNS]],
            column_names=r.CALIBRATION_COLUMNS,
        )


def _drop_before(client: Client, day: date) -> list[str]:
    dropped: list[str] = []
    for table in _AGEING_TABLES:
        with translated(f"dropping old weeks of {table}"):
            weeks = client.query(
                "SELECT DISTINCT partition FROM system.parts WHERE database = currentDatabase() "
                "AND table = {table:String} AND active ORDER BY partition",
                parameters={"table": table},
            )
            for (monday,) in weeks.result_rows:
                if date.fromisoformat(monday) + timedelta(days=7) <= day:
                    client.command(
                        f"ALTER TABLE {table} DROP PARTITION '{monday}'",
                        settings={"max_partition_size_to_drop": 0},  # however large the week is
                    )
                    dropped.append(f"{table} {monday}")
    return dropped
