"""Comparing two versions on the same questions: is the new one worse, and could we have seen it?

"Worse" and "better" are of the new version against the old one. "Not significant" is never
"equal": show `minimum_detectable_difference` beside every result. Sources: McNemar 1947 (exact
form), Bonett & Price 2012, Fisher 1935 (sign flips), Efron 1987 (BCa).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from scorers.stats.intervals import Z95, Interval

_Array = np.ndarray[tuple[int], np.dtype[np.float64]]

EXACT_UP_TO = 16
"""Differences other than 0 up to which all sign flips are enumerated."""

FLIPS = 9999
RESAMPLES = 9999

BCA_FROM = 30
"""Differences other than 0 from which a BCa interval may stand beside the t interval."""


class Pairs(NamedTuple):
    """Scores of two versions on the same questions.

    `differences` are new - old; `only_old` and `only_new` count questions scored in one version
    only, where the missing score counts as 0; `unscored` those left out, scored in neither.
    """

    differences: list[float]
    only_old: int
    only_new: int
    unscored: int


def pair_scores(old: Mapping[str, float | None], new: Mapping[str, float | None]) -> Pairs:
    """Match the scores of two runs by question.

    Args:
        old: score by question id, None where it could not be scored.
        new: the same of the new version.
    """
    differences: list[float] = []
    only_old = only_new = unscored = 0
    for question in sorted(old.keys() | new.keys()):
        before, after = old.get(question), new.get(question)
        if before is None and after is None:
            unscored += 1
            continue
        only_old += after is None
        only_new += before is None
        differences.append((after or 0.0) - (before or 0.0))
    return Pairs(differences, only_old, only_new, unscored)


# --- Right or wrong -------------------------------------------------------------------------


class McNemar(NamedTuple):
    """Exact p-values: two-sided, its mid-p (a secondary number), and one-sided for "worse"."""

    p_value: float
    p_mid: float
    p_worse: float


def exact_mcnemar(worse: int, better: int) -> McNemar:
    """Test whether two versions are right equally often.

    Args:
        worse: questions the old version got right and the new one wrong.
        better: the reverse.

    Raises:
        ValueError: a count is negative.
    """
    _check_counts(worse, better, worse + better)
    changed = worse + better
    if not changed:
        return McNemar(1.0, 1.0, 1.0)
    p_value = float(stats.binomtest(worse, changed).pvalue)
    tie = float(stats.binom.pmf(worse, changed, 0.5))
    p_worse = float(stats.binomtest(worse, changed, alternative="greater").pvalue)
    return McNemar(p_value, p_value - tie, p_worse)


def bonett_price(worse: int, better: int, n: int, z: float = Z95) -> Interval:
    """Return the interval of the change in the share of right answers, in [-1, 1].

    Args:
        worse: questions the old version got right and the new one wrong.
        better: the reverse.
        n: all questions, changed or not.
        z: normal quantile of the wanted confidence.

    Raises:
        ValueError: a count is negative, or n is smaller than the changes.
    """
    _check_counts(worse, better, n)
    p_worse, p_better = (worse + 1) / (n + 2), (better + 1) / (n + 2)
    change = p_better - p_worse
    half = z * math.sqrt((p_better + p_worse - change**2) / (n + 2))
    return Interval(max(change - half, -1.0), min(change + half, 1.0))


def _check_counts(worse: int, better: int, n: int) -> None:
    if worse < 0 or better < 0 or n < worse + better:
        raise ValueError(f"worse {worse} and better {better} must be counts of at most {n} pairs")


# --- Scores between 0 and 1 -------------------------------------------------------------------


class SignFlip(NamedTuple):
    """Permutation p-values, two-sided and one-sided for "worse", and how many pairs differ."""

    p_value: float
    p_worse: float
    nonzero: int


def sign_flip(differences: Sequence[float], seed: int = 0) -> SignFlip:
    """Test whether the mean difference is 0 by flipping signs.

    All flips are enumerated up to 16 differences other than 0, else 9999 are drawn.

    Args:
        differences: new - old per question, any unit.
        seed: of the drawn flips, so that a result can be repeated.

    Raises:
        ValueError: a difference is not finite.
    """
    values = _finite(differences)
    values = values[values != 0.0]
    if not values.size:
        return SignFlip(1.0, 1.0, 0)
    exact = values.size <= EXACT_UP_TO
    sums = _flipped_sums(values, None if exact else seed)
    # Equal sums differ by rounding; drawn flips count the observed signs as one more draw.
    near, drawn = 1e-12 * float(np.abs(values).sum()), int(not exact)
    total = float(values.sum())
    less, more = (
        float((np.count_nonzero(extreme) + drawn) / (sums.size + drawn))
        for extreme in (sums <= total + near, sums >= total - near)
    )
    return SignFlip(min(1.0, 2.0 * min(less, more)), less, int(values.size))


def _flipped_sums(values: _Array, seed: int | None) -> _Array:
    """Return the sums under all flips of signs, or under `FLIPS` drawn ones where seeded."""
    if seed is None:
        flips = np.arange(2**values.size)[:, None] >> np.arange(values.size) & 1
    else:
        flips = np.random.default_rng(seed).integers(0, 2, (FLIPS, values.size), dtype=np.int8)
    sums: _Array = (2.0 * flips - 1.0) @ values
    return sums


class MeanDifference(NamedTuple):
    """A mean difference with its 95 % interval and two-sided p-value."""

    mean: float
    low: float
    high: float
    p_value: float


def paired_t(differences: Sequence[float]) -> MeanDifference | None:
    """Return the mean difference of scores in [0, 1] with Student's interval.

    Where no question changed at all there is no spread to estimate: the interval is then the
    one of as many unchanged right-or-wrong questions (`bonett_price`), never of width 0.

    Args:
        differences: new - old per question, each in [-1, 1].

    Returns:
        None with fewer than two questions, or where all changed by the same amount.

    Raises:
        ValueError: a difference is not finite.
    """
    values = _finite(differences)
    if values.size < 2:
        return None
    if not values.any():
        return MeanDifference(0.0, *bonett_price(0, 0, values.size), 1.0)
    if values.min() == values.max():
        return None
    test = stats.ttest_1samp(values, 0.0)
    low, high = test.confidence_interval()
    return MeanDifference(float(values.mean()), float(low), float(high), float(test.pvalue))


def bca_interval(values: Sequence[float], seed: int = 0) -> Interval | None:
    """Return the bias-corrected accelerated bootstrap interval of a mean, any unit.

    For differences it covers too little while few of them differ from 0 (see `BCA_FROM`): then
    it must not be the only interval shown.

    Args:
        values: scores or differences.
        seed: of the resamples, so that a result can be repeated.

    Returns:
        None where fewer than two different values leave nothing to resample.

    Raises:
        ValueError: a value is not finite.
    """
    sample = _finite(values)
    if sample.size < 2 or sample.min() == sample.max():
        return None
    found = stats.bootstrap(
        (sample,),
        np.mean,
        n_resamples=RESAMPLES,
        method="BCa",
        vectorized=True,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(found.low), float(found.high))


def _finite(values: Sequence[float]) -> _Array:
    array = np.array(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(array).all():
        raise ValueError("a value is not finite: leave unscored questions out or count them as 0")
    return array
