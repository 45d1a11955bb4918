"""Mean score of a sample in which every request had its own, known chance to be judged.

Scores y lie in [0, 1]; a request judged with probability p has weight w = 1/p. Everything is
kept as sums in loss units L = 1 - y: they add up over minutes, segments and replicas, are never
negative, so that they can be counters, and lose few digits where nearly all scores are 1.

Sources: Hájek 1971 and Särndal, Swensson & Wretman 1992, ch. 5 (ratio mean and its linearised
variance), Kish 1965 (effective sample size), Wilson 1927 (interval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from scorers.stats.intervals import Z95, Interval, unit, wilson
from scorers.stats.intervals import shrunk_wilson as shrunk_wilson

MAX_WEIGHT_RATIO = 10.0
"""Above this ratio of weights the shrunk interval is too narrow: heavy strata go unseen."""

HIDE_BELOW = 8.0
NORMAL_FROM = 30.0
"""Effective sample sizes: below the first no point is shown, from the second it is normal."""

BOUNDS_ABOVE = 0.02
DEGRADED_ABOVE = 0.10
"""Shares of failed weight: above the first worst-case bounds are shown, above the second the
monitor itself is degraded and nothing may alert on the mean."""

DOMINATED_ABOVE = 0.25
"""Share of the weight that one record may hold before the estimate is flagged."""

_ROUNDING = 1e-9
"""Relative slack of comparisons: thirty equal weights add up to an n_eff of 29.999999999999996."""

Display = Literal["no_data", "hidden", "low_n", "normal"]


class Moments(NamedTuple):
    """A point estimate and its variance (squared units of the estimate)."""

    mean: float
    variance: float


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an estimate needs to know of the judged requests of any window.

    All fields add up except `max_w` and `min_w`, the largest and smallest weight of a judged
    request; a `min_w` of 0 means not known, and then the safest interval is used. `n_failed`
    and `w_failed` count requests that were drawn but could not be judged.
    """

    n: int = 0
    w: float = 0.0
    wl: float = 0.0
    wll: float = 0.0
    w2: float = 0.0
    w2l: float = 0.0
    w2ll: float = 0.0
    max_w: float = 0.0
    min_w: float = 0.0
    n_failed: int = 0
    w_failed: float = 0.0

    @classmethod
    def of(cls, scores: Sequence[float | None], probabilities: Sequence[float]) -> Sums:
        """Add up the drawn requests of a window.

        Args:
            scores: one score in [0, 1] per drawn request, None where judging failed.
            probabilities: the inclusion probability of each, 0 < p <= 1.

        Raises:
            ValueError: lengths differ, or a score or a probability is outside its range.
        """
        weights = weights_of(probabilities, len(scores))
        judged = [
            (w, 1.0 - _score(y)) for w, y in zip(weights, scores, strict=True) if y is not None
        ]
        failed = [w for w, y in zip(weights, scores, strict=True) if y is None]
        return cls(
            n=len(judged),
            w=math.fsum(w for w, _ in judged),
            wl=math.fsum(w * loss for w, loss in judged),
            wll=math.fsum(w * loss**2 for w, loss in judged),
            w2=math.fsum(w**2 for w, _ in judged),
            w2l=math.fsum(w**2 * loss for w, loss in judged),
            w2ll=math.fsum((w * loss) ** 2 for w, loss in judged),
            max_w=max((w for w, _ in judged), default=0.0),
            min_w=min((w for w, _ in judged), default=0.0),
            n_failed=len(failed),
            w_failed=math.fsum(failed),
        )

    def __add__(self, other: Sums) -> Sums:
        """Return the sums of both windows together."""
        filled = [part for part in (self, other) if part.n]
        return Sums(
            n=self.n + other.n,
            w=self.w + other.w,
            wl=self.wl + other.wl,
            wll=self.wll + other.wll,
            w2=self.w2 + other.w2,
            w2l=self.w2l + other.w2l,
            w2ll=self.w2ll + other.w2ll,
            max_w=max((part.max_w for part in filled), default=0.0),
            min_w=min((part.min_w for part in filled), default=0.0),
            n_failed=self.n_failed + other.n_failed,
            w_failed=self.w_failed + other.w_failed,
        )


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A mean score with its uncertainty, and whether it may be shown.

    `mean`, `low` and `high` are None where there is nothing to estimate from; they are filled
    in when `display` is `hidden` too, so whoever shows them must look at `display`.
    `variance` is the design variance of the mean. `dominated` says that one record holds more
    than a quarter of the weight. Where failures hold more than 2 % of the weight,
    `bounds_low` and `bounds_high` are the mean if every failed answer were worth 0, or 1, and
    `worst_low` and `worst_high` the same for the ends of the interval. `degraded` says that
    failures hold more than 10 %.
    """

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    n_eff: float = 0.0
    variance: float | None = None
    method: str = "none"
    display: Display = "no_data"
    dominated: bool = False
    bounds_low: float | None = None
    bounds_high: float | None = None
    worst_low: float | None = None
    worst_high: float | None = None
    degraded: bool = False

    @property
    def usable_for_alerts(self) -> bool:
        """Whether an alert may rest on this number."""
        return self.display == "normal" and not self.degraded


# --- Point estimates and variances ---------------------------------------------------------


def horvitz_thompson(
    values: Sequence[float], probabilities: Sequence[float], population: int
) -> Moments:
    """Return the Horvitz-Thompson mean of a population of known size, unbiased for any p.

    Give losses rather than scores: most are 0, so the random sum of the weights does little
    harm (1 - mean is then the mean score, with the same variance).

    Args:
        values: of the drawn requests, any unit.
        probabilities: the inclusion probability of each.
        population: number of all requests, drawn or not; at least 1.

    Raises:
        ValueError: lengths differ, a probability is outside (0, 1], or population < 1.
    """
    if population < 1:
        raise ValueError(f"population is {population}: it must be at least 1")
    pairs = list(zip(weights_of(probabilities, len(values)), values, strict=True))
    return Moments(
        math.fsum(w * v for w, v in pairs) / population,
        math.fsum(w * (w - 1.0) * v * v for w, v in pairs) / population**2,
    )


def hajek(sums: Sums) -> Moments:
    """Return the weighted mean score and its variance for "is the system getting worse".

    The variance is the linearised one of a ratio, equal to the HC0 variance of a weighted
    least-squares intercept.

    Raises:
        ValueError: nothing was judged.
    """
    loss = mean_loss(sums)
    spread = sums.w2ll - 2.0 * loss * sums.w2l + loss**2 * sums.w2
    return Moments(unit(1.0 - loss), max(spread, 0.0) / sums.w**2)


def finite_variance(sums: Sums) -> float:
    """Return the variance of the mean of just these requests: 0 when each was judged.

    Raises:
        ValueError: nothing was judged.
    """
    loss = mean_loss(sums)
    spread = (
        (sums.w2ll - sums.wll) - 2.0 * loss * (sums.w2l - sums.wl) + loss**2 * (sums.w2 - sums.w)
    )
    return max(spread, 0.0) / sums.w**2


def kish_n_eff(sums: Sums) -> float:
    """Return how many equally weighted requests would tell as much: (Σw)²/Σw², 0 when empty."""
    return sums.w**2 / sums.w2 if sums.w2 else 0.0


# --- Intervals -----------------------------------------------------------------------------


def interval(sums: Sums, z: float = Z95, design_effect: float = 1.0) -> tuple[Interval, str]:
    """Return the interval of the weighted mean and the name of its method.

    Weights within a factor of ten: shrunk Wilson, with a guard: neither end may claim more than
    as many judged answers without any loss (or of nothing but loss) would. Without it one small
    loss narrows the interval: it takes the mean off 1, where the full binomial variance holds.
    Simulated at a mean of .983 and 120 judged, the guard lifts the coverage from .93 to .97 for
    5 % of the width; it rarely acts below a mean of .95. Known limit: with complaints judged
    four times as often, a mean of .983 and 300 judged, the coverage is .93.

    Weights further apart, or of unknown range: Wilson with Kish's n_eff, which needs no
    variance estimate.

    Args:
        sums: the judged requests, at least one.
        z: normal quantile of the wanted confidence.
        design_effect: factor of the variance by which conversations cluster; see `clusters`.

    Raises:
        ValueError: nothing was judged.
    """
    mean, variance = hajek(sums)
    n_eff = kish_n_eff(sums) / design_effect
    if heavy_tailed(sums):
        return wilson(mean, n_eff, z), "hajek_kish_wilson"
    low, high = shrunk_wilson(mean, variance * design_effect, n_eff, z=z)
    judged = sums.n / design_effect
    perfect = judged / (judged + z * z)
    return Interval(min(low, perfect), max(high, 1.0 - perfect)), "hajek_shrunk_wilson"


def heavy_tailed(sums: Sums) -> bool:
    """Return whether the weights differ by more than ten times, or by nobody knows how much."""
    return not sums.min_w or _exceeds(sums.max_w, MAX_WEIGHT_RATIO * sums.min_w)


def estimate(sums: Sums, design_effect: float = 1.0) -> Estimate:
    """Return the mean score of a window with its 95 % interval; see `interval` for the method.

    Args:
        sums: of the drawn requests; may be empty.
        design_effect: factor of the variance by which conversations cluster; see `clusters`.
    """
    if not sums.n:
        return with_failures(Estimate(), sums)
    mean, variance = hajek(sums)
    (low, high), method = interval(sums, Z95, design_effect)
    n_eff = kish_n_eff(sums)
    found = Estimate(
        mean=mean,
        low=low,
        high=high,
        n=sums.n,
        n_eff=n_eff,
        variance=variance * design_effect,
        method=method,
        display=display(n_eff),
        dominated=sums.max_w > DOMINATED_ABOVE * sums.w,
    )
    return with_failures(found, sums)


def display(n_eff: float) -> Display:
    """Return how an estimate of this effective sample size may be shown."""
    if n_eff <= 0:
        return "no_data"
    if _exceeds(HIDE_BELOW, n_eff):
        return "hidden"
    return "low_n" if _exceeds(NORMAL_FROM, n_eff) else "normal"


def with_failures(found: Estimate, sums: Sums) -> Estimate:
    """Return the estimate with what failed judgements do to it: bounds, and `degraded`."""
    total = sums.w + sums.w_failed
    share = sums.w_failed / total if total else 0.0
    if share <= BOUNDS_ABOVE:
        return found
    kept = 1.0 - share
    low, high = (0.0, 1.0) if found.low is None or found.high is None else (found.low, found.high)
    bounds = worst_case_bounds(sums)
    return msgspec.structs.replace(
        found,
        bounds_low=bounds.low,
        bounds_high=bounds.high,
        worst_low=low * kept,
        worst_high=high * kept + share,
        degraded=share > DEGRADED_ABOVE,
    )


def worst_case_bounds(sums: Sums) -> Interval:
    """Return the mean score if every failed answer were worth 0, and if it were worth 1.

    Raises:
        ValueError: nothing was drawn.
    """
    total = sums.w + sums.w_failed
    if not total:
        raise ValueError("no request was drawn: there is nothing to bound")
    supported = sums.w - sums.wl
    return Interval(unit(supported / total), unit((supported + sums.w_failed) / total))


def smallest_usable(windows: Sequence[tuple[str, Sums]]) -> tuple[str, Estimate]:
    """Return name and estimate of the first window that may be shown as normal, else the last.

    Args:
        windows: names and sums, shortest first, at least one.

    Raises:
        ValueError: no window was given.
    """
    if not windows:
        raise ValueError("windows is empty: give at least one")
    found = [(name, estimate(sums)) for name, sums in windows]
    return next((pair for pair in found if pair[1].display == "normal"), found[-1])


# --- Helpers -------------------------------------------------------------------------------


def weights_of(probabilities: Sequence[float], expected: int) -> list[float]:
    """Return 1/p of every probability.

    Raises:
        ValueError: not `expected` many, or one is outside (0, 1].
    """
    if len(probabilities) != expected:
        raise ValueError(f"probabilities has {len(probabilities)} entries for {expected} requests")
    for p in probabilities:
        if not 0.0 < p <= 1.0:
            raise ValueError(f"probabilities holds {p}: each must be above 0 and at most 1")
    return [1.0 / p for p in probabilities]


def _score(score: float) -> float:
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"scores holds {score}: each must lie in [0, 1], None where it failed")
    return score


def mean_loss(sums: Sums) -> float:
    """Return the weighted mean of 1 - score.

    Raises:
        ValueError: nothing was judged.
    """
    if sums.w <= 0.0:
        raise ValueError("nothing was judged: there is no mean")
    return sums.wl / sums.w


def _exceeds(value: float, bound: float) -> bool:
    return value > bound * (1.0 + _ROUNDING)
