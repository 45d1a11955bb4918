"""The table of fragments: spans of traces that tell of no request yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from clickhouse_connect.driver.client import Client

from collector.ports import Fragment
from sinks import rows as r
from sinks.connection import translated
from sinks.lookups import as_asked, byte_lots, id_lots

COLUMNS = ("batch_id", "trace_id", "version", "body_bytes", "body")

_SIZES = """
SELECT trace_id, argMax(body_bytes, version) FROM fragments
WHERE trace_id IN {ids:Array(String)} GROUP BY trace_id
"""

_BODIES = """
SELECT trace_id, argMax(body, version) AS fullest FROM fragments
WHERE trace_id IN {ids:Array(String)} GROUP BY trace_id
"""


def row(fragment: Fragment, _: datetime, batch_id: str) -> r.Row:
    """Return the row of `COLUMNS`."""
    body = fragment.telemetry
    return batch_id, r.text(fragment.trace_id), fragment.version, len(body), body


def size(fragment: Fragment) -> int:
    """Return roughly how many bytes a fragment takes in an insert."""
    return 200 + len(fragment.telemetry)


def fullest(client: Client, trace_ids: Sequence[str]) -> dict[str, bytes]:
    """See `collector.ports.Store.fragments`."""
    found: dict[str, bytes] = {}
    with translated("reading fragments"):
        for ids in id_lots(trace_ids):
            sizes = client.query(_SIZES, parameters={"ids": ids}).result_rows
            for lot in byte_lots(sizes, lambda row: row[1]):
                result = client.query(
                    _BODIES,
                    parameters={"ids": [trace_id for trace_id, _ in lot]},
                    column_formats={"fullest": "bytes"},
                )
                found |= {row[0]: row[1] for row in result.result_rows}
    return as_asked(trace_ids, found)
