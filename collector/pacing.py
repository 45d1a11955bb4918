"""How a daily budget of judgements is spread over the requests of a day. Pure arithmetic.

    probability = pace * (uniform part + spread of past residuals), between `floor` and 1

The pace is what is left of the budget over what is left of the day's traffic: a profile of past
days by hour, corrected by how the running day compares with it so far. Every number comes from
what was decided before, never from the score of the request itself, so a mean that is weighted by
1/probability stays unbiased although the probability moves (each term is a martingale difference).

Sources: Zrnic & Candès 2024 (active inference, arXiv 2403.03208); Li, Zrnic & Candès 2025 (mixing
with uniform sampling, so that a wrong spread costs little).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import accumulate
from typing import Any, NamedTuple

HOURS = 24

BINS = 5
"""Bins of equal width of the local score; a score of exactly 1 has one more to itself."""
NO_SCORE = -1
"""The bin of requests without a local score."""

UNIFORM_PART = 0.5
LEAST_JUDGED = 50
"""Fewer judged requests than this do not tell where the judge surprises."""

_PSEUDO_COUNT = 5.0
"""Average requests that are added to every segment and bin."""
_TRUST, _BLIND_TRUST = 25.0, 0.25
"""Requests of the running day that count as much as the forecast, and the part of a day of them
where the forecast knows no past: then a quiet night says little about the day."""
_SLOWEST, _FASTEST = 0.5, 2.0
"""Bounds of the pace by the even one: weights that lie far apart make any interval wide."""
_OVERSPENT, _RESERVE = 1.02, 0.1
"""So many times the budget may be spent before the pace falls to this part of the even one."""

Row = Mapping[str, Any]


class Forecast(NamedTuple):
    """Requests that can be judged, as expected from midnight to each full hour of a UTC day.

    `trust` is the number of requests of the running day that count as much as all this.
    """

    sums: tuple[float, ...]
    trust: float = _TRUST

    @classmethod
    def of(cls, past_days: Sequence[Sequence[float]], otherwise: float) -> Forecast:
        """Average past days by hour.

        Args:
            past_days: 24 counts for each whole day.
            otherwise: requests a day, evenly spread, where there is no past day.
        """
        trust = _TRUST
        if not past_days:
            past_days = [[otherwise / HOURS] * HOURS]
            trust = max(_TRUST, _BLIND_TRUST * otherwise)
        means = [math.fsum(hour) / len(past_days) for hour in zip(*past_days, strict=True)]
        # An hour in which nothing ever came is unlikely, not impossible.
        least = max(math.fsum(means) / HOURS / 100.0, 1e-6)
        return cls(tuple(accumulate((max(mean, least) for mean in means), initial=0.0)), trust)

    def between(self, start: float, end: float) -> float:
        """Return the requests expected between two hours of the day, each in [0, 24]."""
        return self._until(end) - self._until(start)

    def _until(self, hour: float) -> float:
        whole = min(int(hour), HOURS - 1)
        return self.sums[whole] + (hour - whole) * (self.sums[whole + 1] - self.sums[whole])


class Day:
    """What was counted of one UTC day so far: requests that can be judged, and those drawn.

    Args:
        date: the day.
        since: hour of the day from which on requests were counted.
        seen: how many could be judged.
        drawn: how many of them are judged.
    """

    def __init__(self, date: date, since: float = 0.0, seen: int = 0, drawn: int = 0) -> None:
        self.date = date
        self.since = since
        self.seen = seen
        self.drawn = drawn


def hour_of(instant: datetime) -> float:
    """Return the hour of the day of a time, in [0, 24)."""
    return instant.hour + instant.minute / 60.0 + instant.second / 3600.0


def pace(budget: float, forecast: Forecast, day: Day, hour: float) -> float:
    """Return the probability that spends the rest of the budget evenly on the rest of the day.

    Args:
        budget: judgements of the whole day.
        forecast: the usual day.
        day: what was counted of the running one.
        hour: how late it is, in [0, 24).

    Returns:
        A number above 0, also when the budget is spent; it may be above 1.
    """
    before = forecast.between(day.since, hour)
    correction = (day.seen + forecast.trust) / (before + forecast.trust)
    to_come = correction * forecast.between(hour, HOURS)
    even = budget / max(correction * forecast.between(day.since, HOURS), 1.0)
    if day.drawn >= _OVERSPENT * budget:
        return _RESERVE * even
    return min(max((budget - day.drawn) / max(to_come, 1.0), _SLOWEST * even), _FASTEST * even)


# --- Where the judge surprises ----------------------------------------------------------------


def bin_of(local_score: float | None) -> int:
    """Return the bin of a local score in [0, 1]; the query `residual_spread` knows the same."""
    return NO_SCORE if local_score is None else math.floor(local_score * BINS)


class Spread(NamedTuple):
    """How far judged scores lay from what segment and bin predict, relative to the average.

    `relative` holds the standard deviation by segment and bin, `otherwise` that of all others.
    """

    relative: Mapping[tuple[str, int], float]
    otherwise: float

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Spread:
        """Work out the spread from sums of past judged requests.

        Args:
            rows: of the query `residual_spread`: segment, bin, n, w, wl, wll.

        Returns:
            The same for all where fewer than 50 were judged, or all were judged alike.
        """
        cells = list(rows)
        judged, weight = sum(int(row["n"]) for row in cells), sum(row["w"] for row in cells)
        if judged < LEAST_JUDGED:
            return UNIFORM
        overall = sum(row["w"] * _variance(row) for row in cells) / weight
        spreads = {
            (str(row["segment"]), int(row["bin"])): math.sqrt(
                (row["n"] * _variance(row) + _PSEUDO_COUNT * overall) / (row["n"] + _PSEUDO_COUNT)
            )
            for row in cells
        }
        mean = sum(row["w"] * spreads[str(row["segment"]), int(row["bin"])] for row in cells)
        mean /= weight
        if mean <= 0.0:
            return UNIFORM
        return cls({cell: sd / mean for cell, sd in spreads.items()}, math.sqrt(overall) / mean)

    def __call__(self, segment: str, bin: int) -> float:
        """Return the relative spread of a segment and bin, 1 on average over past traffic."""
        return self.relative.get((segment, bin), self.otherwise)


UNIFORM = Spread({}, 1.0)


def _variance(row: Row) -> float:
    mean = float(row["wl"] / row["w"])
    return max(float(row["wll"] / row["w"]) - mean * mean, 0.0)


def probability(pace: float, spread: float, floor: float) -> float:
    """Return the probability to judge a request, in [floor, 1].

    Args:
        pace: of the budget, at least 0.
        spread: relative residual spread of requests like this one.
        floor: lowest probability, above 0.
    """
    return min(1.0, max(floor, pace * (UNIFORM_PART + (1.0 - UNIFORM_PART) * spread)))
