"""Honest numbers per segment: accounting and estimate with interval, from additive sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scorers.stats.weighted import Sums, estimate

Row = Mapping[str, Any]
_COUNTS = ("requests", "eligible", "not_sampled", "judged", "waiting")


def segment_rows(
    accounting: Iterable[Row], sums: Iterable[Row], trust: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Join accounting and sums into one row per segment, worst estimate first.

    Args:
        accounting: rows of the query `accounting`.
        sums: rows of the query `estimate_sums`.
        trust: the judge's trust word and its reason.
    """
    counts: dict[str, list[Row]] = {}
    for row in accounting:
        counts.setdefault(row["segment"], []).append(row)
    totals: dict[str, list[Row]] = {}
    for row in sums:
        totals.setdefault(row["segment"], []).append(row)
    rows = [
        {"segment": name, **_row(counts[name], totals.get(name, []), trust)}
        for name in sorted(counts)
    ]
    return sorted(rows, key=lambda r: (r["estimate"] is None, r["estimate"] or 0.0))


def total_row(
    accounting: Iterable[Row], sums: Iterable[Row], trust: Mapping[str, str]
) -> dict[str, Any]:
    """Return the same over all segments: sums are added, never averages averaged."""
    return _row(list(accounting), list(sums), trust)


def _row(accounting: list[Row], sums: list[Row], trust: Mapping[str, str]) -> dict[str, Any]:
    counted: dict[str, Any] = {key: sum(int(row[key]) for row in accounting) for key in _COUNTS}
    counted["failed"] = _add_maps(row["failed"] for row in accounting)
    counted["ineligible"] = _add_maps(row["ineligible"] for row in accounting)
    added = sum((sums_of(row) for row in sums), start=Sums())
    result = estimate(added)
    hidden = result.display in ("no_data", "hidden")
    return {
        **counted,
        "accounting_ok": counted["eligible"]
        == counted["not_sampled"]
        + counted["judged"]
        + counted["waiting"]
        + sum(counted["failed"].values()),
        "n_eff": round(result.n_eff, 3),
        "estimate": None if hidden else result.mean,
        "low": result.low,
        "high": result.high,
        "bounds": [result.bounds_low, result.bounds_high],
        "method": result.method,
        "display": result.display,
        "degraded": result.degraded,
        "judge_trust": trust["trust"],
    }


def sums_of(row: Row) -> Sums:
    """Return the additive sums in a row of the query `estimate_sums`."""
    return Sums(
        n=int(row["n"]),
        **{
            key: float(row[key])
            for key in ("w", "wl", "wll", "w2", "w2l", "w2ll", "max_w", "min_w", "w_failed")
        },
        n_failed=int(row["n_failed"]),
    )


def _add_maps(maps: Iterable[Mapping[str, int]]) -> dict[str, int]:
    added: dict[str, int] = {}
    for one in maps:
        for key, count in one.items():
            added[key] = added.get(key, 0) + int(count)
    return dict(sorted(added.items()))
