"""User signals by segment, with how few of the users they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dashboards.windows import Window

Row = Mapping[str, Any]
_COUNTED = ("signals", "positive", "negative")
_ENGAGEMENT = ("requests", "conversations", "engaged")


class SignalCounts(NamedTuple):
    """Rows of the queries `signals_summary` and `engagement`."""

    counts: list[dict[str, Any]]
    engagement: list[dict[str, Any]]


def signals_told(window: Window, found: SignalCounts, segment: str) -> dict[str, Any]:
    """Return signals by segment and kind; `segment` is "" for all."""
    wanted = ([row for row in rows if segment in ("", row["segment"])] for rows in found)
    return {
        "since": window.since.isoformat(),
        "until": window.until.isoformat(),
        **signal_rows(*wanted),
    }


def signal_rows(counts: Iterable[Row], engagement: Iterable[Row]) -> dict[str, Any]:
    """Join counts and engagement into one row per segment, and one over all.

    A rate is per request of the segment. The share of engaged conversations, those with a signal
    that somebody sent, says how far the sent ones can speak for all users; None without any.

    Args:
        counts: rows of the query `signals_summary`.
        engagement: rows of the query `engagement`.
    """
    found = list(counts)
    by_segment = {row["segment"]: row for row in engagement}
    names = sorted(by_segment.keys() | {row["segment"] for row in found})
    return {
        "unmatched": sum(row["signals"] - row["matched"] for row in found),
        "total": _row(found, list(by_segment.values())),
        "segments": [
            {
                "segment": name,
                **_row(
                    [row for row in found if row["segment"] == name],
                    [by_segment[name]] if name in by_segment else [],
                ),
            }
            for name in names
        ],
    }


def _row(counts: list[Row], engagement: list[Row]) -> dict[str, Any]:
    sizes = {key: sum(int(row[key]) for row in engagement) for key in _ENGAGEMENT}
    kinds: dict[tuple[str, bool], list[Row]] = {}
    for row in counts:
        kinds.setdefault((row["kind"], bool(row["inferred"])), []).append(row)
    return {
        **sizes,
        "engaged_share": _share(sizes["engaged"], sizes["conversations"]),
        "kinds": [
            {
                "kind": kind,
                "inferred": inferred,
                **{key: sum(int(row[key]) for row in rows) for key in _COUNTED},
                "per_request": _share(sum(int(row["matched"]) for row in rows), sizes["requests"]),
            }
            for (kind, inferred), rows in sorted(kinds.items())
        ],
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
