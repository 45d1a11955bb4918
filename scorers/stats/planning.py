"""Floors that do not block a healthy version, and how many questions a claim needs.

Sources: Holm 1979, Clopper & Pearson's exact binomial test, Connor 1987 (paired sample size).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from scipy import stats

from scorers.stats.intervals import Z95, shrunk_wilson


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for being one of several, in the given order.

    Comparing them with .05 keeps the chance of any false alarm among them below .05.

    Raises:
        ValueError: a p-value is outside [0, 1].
    """
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise ValueError("p_values holds a value outside [0, 1]")
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min((len(order) - rank) * p_values[i], 1.0))
        adjusted[i] = largest
    return adjusted


def below_floor(passed: int, n: int, floor: float) -> float:
    """Return the exact chance of so few passes, or fewer, from a version right at the floor.

    Args:
        passed: questions answered right.
        n: questions asked, at least 1; below 20 report the number and block nothing.
        floor: the lowest share that is still acceptable, in [0, 1].

    Raises:
        ValueError: passed is not between 0 and n, n < 1, or floor is outside [0, 1].
    """
    if not 0 <= passed <= n or n < 1:
        raise ValueError(f"passed is {passed}: it must be a count of at most n = {n} >= 1")
    return float(stats.binomtest(passed, n, floor, alternative="less").pvalue)


def mean_below_floor(scores: Sequence[float], floor: float, slices: int = 1) -> bool:
    """Return whether the mean of scores is below a floor beyond doubt.

    The upper end of the shrunk Wilson interval at level 1 - .05/slices must be below it.

    Args:
        scores: of one slice, each in [0, 1].
        floor: the lowest mean that is still acceptable.
        slices: how many slices are checked together.

    Raises:
        ValueError: no score, one outside [0, 1], or slices < 1.
    """
    values = np.asarray(scores, dtype=float)
    if not values.size or not ((values >= 0.0) & (values <= 1.0)).all():
        raise ValueError("scores must hold at least one score, each in [0, 1]")
    if slices < 1:
        raise ValueError(f"slices is {slices}: it must be at least 1")
    z = NormalDist().inv_cdf(1.0 - 0.05 / slices)
    n = values.size
    return shrunk_wilson(float(values.mean()), float(values.var()) / n, n, z=z).high < floor


# --- How many questions ---------------------------------------------------------------------


class Precision(NamedTuple):
    """What n questions can show of a share: standard error and half of the 95 % interval."""

    n: int
    standard_error: float
    half_width: float


def precision(n: int, share: float = 0.5) -> Precision:
    """Return how exactly n questions measure a share.

    Args:
        n: number of questions, at least 1.
        share: the share itself; .5 is the worst case.

    Raises:
        ValueError: n < 1 or share outside [0, 1].
    """
    if n < 1 or not 0.0 <= share <= 1.0:
        raise ValueError(f"n is {n} and share {share}: n >= 1 and a share in [0, 1] are needed")
    error = math.sqrt(share * (1.0 - share) / n)
    return Precision(n, error, Z95 * error)


def questions_for(half_width: float, share: float = 0.5) -> int:
    """Return how many questions measure a share to within plus or minus half_width at 95 %.

    Raises:
        ValueError: half_width is not positive, or share outside [0, 1].
    """
    if half_width <= 0.0 or not 0.0 <= share <= 1.0:
        raise ValueError("half_width must be positive and share in [0, 1]")
    return max(math.ceil((Z95 / half_width) ** 2 * share * (1.0 - share)), 1)


def questions_for_paired(
    changed: float, difference: float, alpha: float = 0.05, power: float = 0.8
) -> int:
    """Return how many questions a paired right-or-wrong comparison needs (Connor).

    Args:
        changed: expected share of questions on which the versions differ, at least |difference|.
        difference: the change in the share of right answers to be found, not 0.
        alpha: two-sided level.
        power: chance to find it.

    Raises:
        ValueError: difference is 0, or changed is not between it and 1.
    """
    if not 0.0 < abs(difference) <= changed <= 1.0:
        raise ValueError("changed must lie between the difference, which is not 0, and 1")
    z_alpha, z_power = _quantiles(alpha, power)
    root = z_alpha * math.sqrt(changed) + z_power * math.sqrt(changed - difference**2)
    return math.ceil((root / difference) ** 2)


def minimum_detectable_difference(
    n: int, changed: float, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Return the smallest change of a share that n paired questions would probably show.

    Args:
        n: number of questions, at least 1.
        changed: share of questions on which the versions differ, in (0, 1].
        alpha: two-sided level.
        power: chance to find it.

    Returns:
        None where even a change of all differing questions in one direction would not show.

    Raises:
        ValueError: n < 1 or changed outside (0, 1].
    """
    if n < 1 or not 0.0 < changed <= 1.0:
        raise ValueError(f"n is {n} and changed {changed}: n >= 1 and 0 < changed <= 1 are needed")
    z_alpha, z_power = _quantiles(alpha, power)
    # Connor's formula solved for the difference d: (d√n - a)² = z_power² (changed - d²).
    a, b = z_alpha * math.sqrt(changed), n + z_power**2
    d = (a * math.sqrt(n) + math.sqrt(a * a * n - b * (a * a - z_power**2 * changed))) / b
    return d if d <= changed else None


def _quantiles(alpha: float, power: float) -> tuple[float, float]:
    if not 0.0 < alpha < 1.0 or not 0.5 <= power < 1.0:
        raise ValueError("alpha must lie between 0 and 1, power between .5 and 1")
    return NormalDist().inv_cdf(1.0 - alpha / 2.0), NormalDist().inv_cdf(power)
