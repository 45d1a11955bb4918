"""Look-ups of single traces in the store, each a call on one client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from clickhouse_connect.driver.client import Client

from collector.model import StoredRequest
from collector.ports import Known
from sinks import rows as r
from sinks.connection import translated

_IDS_PER_QUERY = 1_000
_BYTES_PER_QUERY = 64 * 1024 * 1024

_VERSIONS = """
SELECT trace_id, version, filed_at, telemetry_bytes
FROM requests WHERE trace_id IN {ids:Array(String)}
"""

# The sorting key narrows the read to the granules of these traces.
_NEWEST = """
SELECT <columns> FROM requests
WHERE filed_at IN {times:Array(DateTime64(6, 'UTC'))} AND trace_id IN {ids:Array(String)}
ORDER BY version DESC LIMIT 1 BY trace_id
"""

_JUDGED = """
SELECT trace_id, argMax(request_version, rank) FROM judgements
WHERE fingerprint = {fingerprint:String} AND trace_id IN {ids:Array(String)}
GROUP BY trace_id
"""

_KNOWN_COLUMNS = ("trace_id", "version", *r.DECISION_FIELDS, "telemetry")
_READ_COLUMNS = tuple(c for c in r.REQUEST_COLUMNS if c not in ("telemetry", "telemetry_bytes"))


class _Version(NamedTuple):
    """One stored version of a trace, and where it lies."""

    trace_id: str
    version: int
    filed_at: datetime
    telemetry_bytes: int


def known(client: Client, trace_ids: Sequence[str]) -> dict[str, Known]:
    """See `collector.ports.Store.known`."""
    rows = {row["trace_id"]: row for row in _newest(client, trace_ids, _KNOWN_COLUMNS)}
    return {
        trace_id: Known(row["version"], r.decision(row), row["telemetry"])
        for trace_id in trace_ids
        if (row := rows.get(r.text(trace_id))) is not None
    }


def requests(client: Client, trace_ids: Sequence[str]) -> dict[str, StoredRequest]:
    """See `collector.ports.Store.requests`."""
    rows = {row["trace_id"]: row for row in _newest(client, trace_ids, _READ_COLUMNS)}
    return {
        trace_id: r.stored_request(row)
        for trace_id in trace_ids
        if (row := rows.get(r.text(trace_id))) is not None
    }


def judged_versions(client: Client, trace_ids: Sequence[str], fingerprint: str) -> dict[str, int]:
    """See `collector.ports.Store.judged_versions`."""
    found: dict[str, int] = {}
    for ids in _id_lots(trace_ids):
        with translated("looking up judgements"):
            result = client.query(
                _JUDGED, parameters={"ids": ids, "fingerprint": r.text(fingerprint)}
            )
        found |= {row[0]: row[1] for row in result.result_rows}
    return {
        trace_id: found[stored] for trace_id in trace_ids if (stored := r.text(trace_id)) in found
    }


def filing_times(client: Client, trace_ids: Sequence[str]) -> dict[str, datetime]:
    """Return the time each of the traces that are stored was first filed under."""
    filed: dict[str, datetime] = {}
    for version in _versions(client, trace_ids):
        earlier = filed.get(version.trace_id, version.filed_at)
        filed[version.trace_id] = min(version.filed_at, earlier)
    return filed


def _versions(client: Client, trace_ids: Sequence[str]) -> list[_Version]:
    """Return all stored versions of the traces.

    Served from a projection ordered by trace id, so that the usual answer, none of them is there,
    costs little whatever the size of the table.
    """
    found: list[_Version] = []
    for ids in _id_lots(trace_ids):
        with translated("looking up traces"):
            result = client.query(_VERSIONS, parameters={"ids": ids})
        found += [_Version(*row) for row in result.result_rows]
    return found


def _newest(
    client: Client, trace_ids: Sequence[str], columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the newest version of those of the traces that are stored."""
    sql = _NEWEST.replace("<columns>", ", ".join(f"`{column}`" for column in columns))
    for lot in _byte_lots(_versions(client, trace_ids)):
        parameters = {
            "times": r.parameter(sorted({version.filed_at for version in lot})),
            "ids": sorted({version.trace_id for version in lot}),
        }
        with translated("reading requests"):
            result = client.query(sql, parameters=parameters, column_formats={"telemetry": "bytes"})
        yield from result.named_results()


def _id_lots(trace_ids: Sequence[str]) -> Iterator[list[str]]:
    ids = [r.text(trace_id) for trace_id in dict.fromkeys(trace_ids)]
    for start in range(0, len(ids), _IDS_PER_QUERY):
        yield ids[start : start + _IDS_PER_QUERY]


def _byte_lots(versions: Sequence[_Version]) -> list[list[_Version]]:
    """Split versions by the raw spans they carry, so that one read fits into memory.

    All versions of one trace stay together.
    """
    lots: list[list[_Version]] = []
    held, last = 0, ""
    for version in sorted(versions):
        if not lots or (held >= _BYTES_PER_QUERY and version.trace_id != last):
            lots.append([])
            held = 0
        lots[-1].append(version)
        held, last = held + version.telemetry_bytes, version.trace_id
    return lots
