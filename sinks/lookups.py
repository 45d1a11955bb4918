"""Look-ups of single traces in the store, each a call on one client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from clickhouse_connect.driver.client import Client

from collector.model import Judgement, StoredRequest
from collector.ports import Known
from sinks import rows as r
from sinks.connection import translated

_IDS_PER_QUERY = 500
_BYTES_PER_QUERY = 64 * 1024 * 1024

_VERSIONS = """
SELECT trace_id, version, filed_at, telemetry_bytes
FROM requests WHERE trace_id IN {ids:Array(String)}
"""

# The sorting keys narrow both reads to the granules of these traces.
_NEWEST = """
SELECT <columns> FROM requests
WHERE filed_at IN {times:Array(DateTime64(6, 'UTC'))} AND trace_id IN {ids:Array(String)}
ORDER BY version DESC LIMIT 1 BY trace_id
"""

_TELEMETRY = """
SELECT trace_id, version, body FROM telemetry
WHERE filed_at IN {times:Array(DateTime64(6, 'UTC'))} AND trace_id IN {ids:Array(String)}
"""

_JUDGED = """
SELECT trace_id, argMax(request_version, rank) FROM judgements
WHERE fingerprint = {fingerprint:String} AND trace_id IN {ids:Array(String)}
GROUP BY trace_id
"""

# Nearly all granules are left out by the Bloom filter of the hash.
_JUDGEMENT_OF = """
SELECT <columns> FROM judgements
WHERE fingerprint = {fingerprint:String} AND content_hash = {content_hash:String}
  AND status = 'judged'
ORDER BY rank DESC LIMIT 1
"""

_KNOWN_COLUMNS = ("trace_id", "version", "ineligible", *r.DECISION_FIELDS)

_T = TypeVar("_T")


class _Version(NamedTuple):
    """One stored version of a trace, and where it lies."""

    trace_id: str
    version: int
    filed_at: datetime
    telemetry_bytes: int


def known(client: Client, trace_ids: Sequence[str]) -> dict[str, Known]:
    """See `collector.ports.Store.known`."""
    found: dict[str, Known] = {}
    for ids in id_lots(trace_ids):
        versions = _versions(client, ids)
        bodies = _bodies(client, versions)
        for row in _newest(client, versions, _KNOWN_COLUMNS):
            body = bodies.get((row["trace_id"], row["version"]), b"")
            known_row = Known(row["version"], r.decision(row), body, row["ineligible"])
            found[row["trace_id"]] = known_row
    return as_asked(trace_ids, found)


def requests(client: Client, trace_ids: Sequence[str]) -> dict[str, StoredRequest]:
    """See `collector.ports.Store.requests`."""
    found: dict[str, StoredRequest] = {}
    for ids in id_lots(trace_ids):
        for row in _newest(client, _versions(client, ids), r.REQUEST_COLUMNS):
            found[row["trace_id"]] = r.stored_request(row)
    return as_asked(trace_ids, found)


def judged_versions(client: Client, trace_ids: Sequence[str], fingerprint: str) -> dict[str, int]:
    """See `collector.ports.Store.judged_versions`."""
    found: dict[str, int] = {}
    for ids in id_lots(trace_ids):
        with translated("looking up judgements"):
            result = client.query(
                _JUDGED, parameters={"ids": ids, "fingerprint": r.text(fingerprint)}
            )
        found |= {row[0]: row[1] for row in result.result_rows}
    return as_asked(trace_ids, found)


def judgement_of(client: Client, content_hash: str, fingerprint: str) -> Judgement | None:
    """See `collector.ports.Store.judgement_of`."""
    with translated("looking up judgements"):
        result = client.query(
            _with_columns(_JUDGEMENT_OF, r.JUDGEMENT_COLUMNS),
            parameters={"content_hash": content_hash, "fingerprint": r.text(fingerprint)},
        )
    return next((r.stored_judgement(row) for row in result.named_results()), None)


def filing_times(client: Client, trace_ids: Sequence[str]) -> dict[str, datetime]:
    """Return the time each of the traces that are stored was first filed under."""
    filed: dict[str, datetime] = {}
    for ids in id_lots(trace_ids):
        for version in _versions(client, ids):
            earlier = filed.get(version.trace_id, version.filed_at)
            filed[version.trace_id] = min(version.filed_at, earlier)
    return filed


def _versions(client: Client, ids: Sequence[str]) -> list[_Version]:
    """Return all stored versions of the traces.

    Served from a projection ordered by trace id, so that the usual answer, none of them is there,
    costs little whatever the size of the table.
    """
    with translated("looking up traces"):
        result = client.query(_VERSIONS, parameters={"ids": ids})
    return [_Version(*row) for row in result.result_rows]


def _newest(
    client: Client, versions: Sequence[_Version], columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the newest of the versions of each trace."""
    sql = _with_columns(_NEWEST, columns)
    if versions:
        with translated("reading requests"):
            result = client.query(sql, parameters=_places(versions))
        yield from result.named_results()


def _with_columns(sql: str, columns: Sequence[str]) -> str:
    return sql.replace("<columns>", ", ".join(f"`{column}`" for column in columns))


def _bodies(client: Client, versions: Sequence[_Version]) -> dict[tuple[str, int], bytes]:
    """Return the raw spans of the versions, by trace id and version, as far as they are kept."""
    bodies: dict[tuple[str, int], bytes] = {}
    kept = sorted((v for v in versions if v.telemetry_bytes), key=lambda v: v.filed_at)
    for lot in byte_lots(kept, lambda version: version.telemetry_bytes):
        with translated("reading telemetry"):
            result = client.query(
                _TELEMETRY, parameters=_places(lot), column_formats={"body": "bytes"}
            )
        bodies |= {(row[0], row[1]): row[2] for row in result.result_rows}
    return bodies


def _places(versions: Sequence[_Version]) -> dict[str, Any]:
    """Return where the versions lie, as parameters."""
    return {
        "times": r.parameter(sorted({version.filed_at for version in versions})),
        "ids": sorted({version.trace_id for version in versions}),
    }


def as_asked(trace_ids: Sequence[str], found: Mapping[str, _T]) -> dict[str, _T]:
    """Key what was found by the ids as given: the stored ones are cleaned."""
    return {
        trace_id: found[stored] for trace_id in trace_ids if (stored := r.text(trace_id)) in found
    }


def id_lots(trace_ids: Sequence[str]) -> Iterator[list[str]]:
    """Yield the ids as stored, each once, few enough for one query."""
    ids = [r.text(trace_id) for trace_id in dict.fromkeys(trace_ids)]
    for start in range(0, len(ids), _IDS_PER_QUERY):
        yield ids[start : start + _IDS_PER_QUERY]


def byte_lots(items: Iterable[_T], size: Callable[[_T], int]) -> list[list[_T]]:
    """Split what is to be read by its size in bytes, so that one read fits into memory."""
    lots: list[list[_T]] = []
    held = 0
    for item in items:
        if not lots or held >= _BYTES_PER_QUERY:
            lots.append([])
            held = 0
        lots[-1].append(item)
        held += size(item)
    return lots
