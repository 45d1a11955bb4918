"""Honest numbers per segment: accounting and estimate with interval, from additive sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from dashboards.windows import Window
from scorers.covariate import MIN_HISTORY
from scorers.stats.clusters import ClusterSums
from scorers.stats.ppi import PREDICTED_SHARE, PpiSums
from scorers.stats.published import Published, published
from scorers.stats.weighted import Sums

Row = Mapping[str, Any]
_COUNTS = ("requests", "eligible", "not_sampled", "judged", "waiting")
_JUDGED_SUMS = ("w", "wl", "wll", "w2", "w2l", "w2ll", "max_w", "min_w", "w_failed")
_CROSS_SUMS = ("wh", "wlh", "whh", "w2h", "w2lh", "w2hh", "h", "w_unscored", "wh_unscored")
_CONVERSATION_SUMS = ("ww", "wa", "wb", "aa", "ab", "bb")


class WindowSums(NamedTuple):
    """What the store knows of one window: rows of `estimate_sums` and `conversation_sums`."""

    sums: Sequence[Row]
    conversations: Sequence[Row]

    def only(self, segment: str) -> WindowSums:
        """Return what the store knows of one segment; "" stands for all."""
        if not segment:
            return self
        groups = [row for row in self.conversations if row["segment"] == segment]
        alone = [{**row, "level": "all"} for row in groups if row["level"] == "segment"]
        sums = [row for row in self.sums if row["segment"] == segment]
        return WindowSums(sums, [*groups, *alone])

    def of_segment(self, name: str) -> Published:
        """Return the estimate of one segment, over all services."""
        groups = (row for row in self.conversations if row["level"] == "segment")
        return published(
            _added(row for row in self.sums if row["segment"] == name),
            _clusters(row for row in groups if row["segment"] == name),
        )

    def of_pair(self, row: Row) -> Published:
        """Return the estimate of the service and segment of one row of `sums`."""
        groups = (other for other in self.conversations if other["level"] == "both")
        same = (
            g for g in groups if (g["service"], g["segment"]) == (row["service"], row["segment"])
        )
        return published(sums_of(row), _clusters(same))

    def of_all(self) -> Published:
        """Return the estimate over all segments: sums are added, never averages averaged."""
        groups = (row for row in self.conversations if row["level"] == "all")
        return published(_added(self.sums), _clusters(groups))


def segment_rows(found: WindowSums, trust: Mapping[str, str]) -> list[dict[str, Any]]:
    """Join accounting and estimate into one row per segment, worst estimate first.

    Args:
        found: of one window; its `sums` carry the accounting.
        trust: the judge's trust word and its reason.
    """
    counts: dict[str, list[Row]] = {}
    for row in found.sums:
        counts.setdefault(row["segment"], []).append(row)
    rows = [
        {"segment": name, **_row(counts[name], found.of_segment(name), trust)}
        for name in sorted(counts)
    ]
    return sorted(rows, key=lambda r: (r["estimate"] is None, r["estimate"] or 0.0))


def total_row(found: WindowSums, trust: Mapping[str, str]) -> dict[str, Any]:
    """Return the same over all segments."""
    return _row(found.sums, found.of_all(), trust)


def _row(accounting: Sequence[Row], found: Published, trust: Mapping[str, str]) -> dict[str, Any]:
    counted: dict[str, Any] = {key: sum(int(row[key]) for row in accounting) for key in _COUNTS}
    counted["failed"] = _add_maps(row["failed"] for row in accounting)
    counted["ineligible"] = _add_maps(row["ineligible"] for row in accounting)
    return {
        **counted,
        "accounting_ok": counted["eligible"]
        == counted["not_sampled"]
        + counted["judged"]
        + counted["waiting"]
        + sum(counted["failed"].values()),
        **shown(found),
        "wider": None,
        "judge_trust": trust["trust"],
    }


def shown(found: Published) -> dict[str, Any]:
    """Return an estimate as it may be shown: no point where too little was judged."""
    result = found.estimate
    method, _, interval = result.method.partition("_")
    return {
        "n_eff": round(result.n_eff, 3),
        "estimate": None if result.display in ("no_data", "hidden") else result.mean,
        "low": result.low,
        "high": result.high,
        "bounds": [result.bounds_low, result.bounds_high],
        "worst": [result.worst_low, result.worst_high],
        "method": method,
        "interval": interval or None,
        "display": result.display,
        "dominated": result.dominated,
        "degraded": result.degraded,
        "conversations": found.conversations,
        "design_effect": round(found.design_effect, 3),
    }


def wider_row(name: str, window: Window, found: Published) -> dict[str, Any]:
    """Return the estimate of a wider window, to be shown beside one of too few requests."""
    return {"window": name, "since": window.since.isoformat(), **shown(found)}


def covariate_of(
    sums: Iterable[Row], calibration: Row, *, predictable: bool = True
) -> dict[str, Any]:
    """Say whether predictions help the estimates of a window, and why not.

    Args:
        sums: rows of the query `estimate_sums`.
        calibration: the row of the query `calibrations`.
        predictable: whether scores of this kind are predicted at all.
    """
    rows = list(sums)
    requests = sum(int(row["n_requests"]) for row in rows)
    predicted = sum(int(row["n_predicted"]) for row in rows)
    fitted_at: datetime | None = calibration["fitted_at"] if calibration["version"] else None
    reason = None
    if not predictable:
        reason = "only faithfulness is predicted"
    elif fitted_at is None:
        judged = int(calibration["judged"])
        reason = (
            f"{judged} judged requests so far; it takes {MIN_HISTORY} to learn from"
            if judged < MIN_HISTORY
            else "not fitted yet, or the local score is the same for all requests"
        )
    elif predicted < PREDICTED_SHARE * requests or not requests:
        reason = (
            f"{predicted} of {requests} requests came after the first calibration; "
            f"it takes {PREDICTED_SHARE:.0%}"
        )
    return {
        "state": "off" if reason else "on",
        "version": max((row["calibration"] for row in rows), default="") or None,
        "fitted_at": fitted_at.isoformat() if fitted_at else None,
        "n": int(calibration["n"]),
        "predicted": predicted,
        "reason": reason,
    }


def sums_of(row: Row) -> PpiSums:
    """Return the additive sums in a row of the query `estimate_sums`."""
    judged = Sums(
        n=int(row["n"]),
        n_failed=int(row["n_failed"]),
        **{key: float(row[key]) for key in _JUDGED_SUMS},
    )
    return PpiSums(
        judged=judged,
        requests=int(row["n_requests"]),
        predicted=int(row["n_predicted"]),
        **{key: float(row[key]) for key in _CROSS_SUMS},
    )


def _added(rows: Iterable[Row]) -> PpiSums:
    return sum((sums_of(row) for row in rows), start=PpiSums())


def _clusters(rows: Iterable[Row]) -> ClusterSums:
    """Return the sums of the one row there is at most."""
    for row in rows:
        return ClusterSums(n=int(row["n"]), **{key: float(row[key]) for key in _CONVERSATION_SUMS})
    return ClusterSums()


def _add_maps(maps: Iterable[Mapping[str, int]]) -> dict[str, int]:
    added: dict[str, int] = {}
    for one in maps:
        for key, count in one.items():
            added[key] = added.get(key, 0) + int(count)
    return dict(sorted(added.items()))
