"""The worst conversations of a window, found without reading all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collector.ports import Store

_FIRST = 100
_BOUNDS = 10
_FURTHER = 10
_TAIL = 2
"""Requests looked at for their lexical score alone, for each conversation that is bounded."""

Row = Mapping[str, Any]


async def worst_conversations(
    store: Store, asked: Mapping[str, Any], limit: int
) -> list[dict[str, Any]]:
    """Return the rows of the query `worst`, as if it had looked at every conversation.

    It looks at those that the query `worst_bounds` names first, then at all that can be as bad as
    the last of these, and goes on as long as another one could belong into the list.

    Args:
        store: to read.
        asked: since, until, segment, fingerprint.
        limit: how many conversations.
    """
    first = limit + _FIRST
    most, recent = first * _BOUNDS, asked["until"]
    rows: list[dict[str, Any]] = []
    looked: set[str] = set()
    while True:
        several = {"limit": most, "looked_at": most * _TAIL, "recent": recent}
        bounds = await store.rows("worst_bounds", {**asked, **several})
        for some in (bounds[:first], bounds[first:]):
            least = rows[-1]["badness"] if len(rows) == limit else 0
            can_be = {row["conversation"] for row in some if row["high"] >= least}
            names = sorted(can_be - looked)
            looked.update(names)
            rows = _first(rows + await _among(store, asked, limit, names), limit)
        last = rows[-1] if len(rows) == limit else None
        if _complete(bounds, most, last, recent):
            return rows
        if last and last["badness"] == bounds[-1]["high"] and recent > last["last_at"]:
            # Of equals the latest comes first: only a conversation with a request since then can
            # stand before this one.
            recent = last["last_at"]
        else:
            most *= _FURTHER


def _complete(bounds: Sequence[Row], most: int, last: Row | None, recent: Any) -> bool:
    """Whether no conversation but those of `bounds` can stand before the last of the list."""
    if not bounds or (len(bounds) < most and bounds[0]["unseen"] == 0):
        return True
    if last is None:
        return False
    if len(bounds) < most:
        return bool(last["badness"] >= bounds[0]["unseen"])
    highest = bounds[-1]["high"]
    return bool(
        last["badness"] > highest or (last["badness"] == highest and last["last_at"] >= recent)
    )


def _first(rows: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return the first rows in the order of the query `worst`."""
    ordered = sorted(rows, key=lambda row: str(row["conversation"]))
    ordered.sort(key=lambda row: (row["badness"], row["last_at"]), reverse=True)
    return ordered[:limit]


async def _among(
    store: Store, asked: Mapping[str, Any], limit: int, conversations: Sequence[str]
) -> list[dict[str, Any]]:
    if not conversations:
        return []
    traces = await store.rows("traces_of_conversations", {"conversations": conversations})
    places = await store.rows("places", {"trace_ids": [row["trace_id"] for row in traces]})
    only = {
        "conversations": conversations,
        "trace_ids": sorted({place["trace_id"] for place in places}),
        "times": sorted({place["filed_at"] for place in places}),
    }
    return await store.rows("worst", {**asked, **only, "limit": limit})
