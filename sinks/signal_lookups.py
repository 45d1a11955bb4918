"""Look-ups between signals and requests in the store, each a call on one client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from clickhouse_connect.driver.client import Client

from collector.model import Signal, StoredRequest
from sinks import rows as r
from sinks.connection import translated

_IDS_PER_QUERY = 5_000

_SIGNALS = """
SELECT <columns> FROM signals WHERE signal_id IN {ids:Array(String)}
ORDER BY rank DESC LIMIT 1 BY signal_id
"""

_DIRECT = ("trace_id", "span_id", "response_id", "message_id")
"""Targets that name one request. With one of them a conversation says nothing more."""

# Served from a projection, whatever the size of the table.
_BY_TRACE = "SELECT DISTINCT trace_id FROM requests WHERE trace_id IN {ids:Array(String)}"

# Bloom filters, one per granule, say where to look; a set of the ids then looks, which hasAny would
# do by comparing all with all. Each kind of id apart: one condition over all of them would read the
# granules of every kind for any of them.
_BY_ID = {
    "span_id": "indexHint(hasAny(span_ids, {ids:Array(String)})) "
    "AND arrayExists(id -> id IN {ids:Array(String)}, span_ids)",
    "response_id": "indexHint(hasAny(response_ids, {ids:Array(String)})) "
    "AND arrayExists(id -> id IN {ids:Array(String)}, response_ids)",
    "message_id": "message_id IN {ids:Array(String)}",
    "conversation_id": "conversation_id IN {ids:Array(String)}",
}
_RECENT = """
SELECT DISTINCT trace_id FROM requests
WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND <condition>
"""

# Signals that ever said no about one of them, then only those whose latest word still does.
_COMPLAINTS = """
SELECT <columns> FROM (
  SELECT * FROM signals WHERE signal_id IN (
    SELECT signal_id FROM signals
    WHERE filed_at >= {since:DateTime64(6, 'UTC')} AND sentiment < 0 AND (
      trace_id IN {trace_id:Array(String)} OR span_id IN {span_id:Array(String)}
      OR response_id IN {response_id:Array(String)} OR message_id IN {message_id:Array(String)}
      OR conversation_id IN {conversation_id:Array(String)}
    )
  )
  ORDER BY rank DESC LIMIT 1 BY signal_id
)
WHERE sentiment < 0 AND NOT revoked
"""


def signals(client: Client, signal_ids: Sequence[str]) -> list[Signal]:
    """See `collector.ports.Store.signals_with`."""
    found: list[Signal] = []
    for ids in _lots(signal_ids):
        found += _read(client, _SIGNALS, {"ids": ids})
    return found


def candidates(client: Client, about: Sequence[Signal], since: datetime) -> list[str]:
    """See `collector.ports.Store.candidates`."""
    found: set[str] = set()
    for ids in _lots(signal.trace_id for signal in about):
        found |= _trace_ids(client, _BY_TRACE, {"ids": ids})
    whole = [signal for signal in about if all(getattr(signal, id_) is None for id_ in _DIRECT)]
    for field, condition in _BY_ID.items():
        sql = _RECENT.replace("<condition>", condition)
        for ids in _lots(getattr(s, field) for s in (about if field in _DIRECT else whole)):
            found |= _trace_ids(client, sql, {"ids": ids, "since": r.parameter(since)})
    return sorted(found)


def complaints(client: Client, rows: Sequence[StoredRequest], since: datetime) -> list[Signal]:
    """See `collector.ports.Store.complaints`."""
    requests = [row.request for row in rows]
    ids: dict[str, list[str | None]] = {
        "trace_id": [request.trace_id for request in requests],
        "span_id": [span_id for row in rows for span_id in row.span_ids],
        "response_id": [found for request in requests for found in request.response_ids],
        "message_id": [request.message_id for request in requests],
        "conversation_id": [request.conversation_id for request in requests],
    }
    parameters = {field: _clean(values) for field, values in ids.items()}
    return _read(client, _COMPLAINTS, parameters | {"since": r.parameter(since)})


def _read(client: Client, sql: str, parameters: dict[str, Any]) -> list[Signal]:
    columns = ", ".join(f"`{field}`" for field in r.SIGNAL_FIELDS)
    with translated("reading signals"):
        result = client.query(sql.replace("<columns>", columns), parameters=parameters)
    return [r.stored_signal(row) for row in result.named_results()]


def _trace_ids(client: Client, sql: str, parameters: dict[str, Any]) -> set[str]:
    with translated("looking up what signals are about"):
        return {row[0] for row in client.query(sql, parameters=parameters).result_rows}


def _lots(ids: Iterable[str | None]) -> Iterator[list[str]]:
    unique = _clean(ids)
    for start in range(0, len(unique), _IDS_PER_QUERY):
        yield unique[start : start + _IDS_PER_QUERY]


def _clean(ids: Iterable[str | None]) -> list[str]:
    return [r.text(found) for found in dict.fromkeys(ids) if found is not None]
