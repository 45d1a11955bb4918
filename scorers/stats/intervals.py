"""Wilson's interval for shares and for bounded scores of a weighted sample.

Source: Wilson 1927; the shrinkage of the design variance is this project's reference method.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

Z95 = NormalDist().inv_cdf(0.975)
"""Two-sided 95 % quantile of the standard normal distribution."""

KAPPA = 10.0
KAPPA_PPI = 3.0
"""Prior observations at the largest possible variance: for the plain weighted mean, and for
prediction-powered estimates."""


_NEGLIGIBLE = 1e-12
"""A mean this close to 0 or 1 is there but for rounding."""


class Interval(NamedTuple):
    """A 95 % interval, unless another z was asked for; both ends in [0, 1] for scores."""

    low: float
    high: float


def wilson(mean: float, n: float, z: float = Z95) -> Interval:
    """Return Wilson's interval of a share in [0, 1]; `n` may be an effective, fractional size.

    Raises:
        ValueError: n is not positive.
    """
    if n <= 0:
        raise ValueError(f"n is {n}: an interval needs at least one observation")
    scale = 1.0 + z * z / n
    centre = (mean + z * z / (2.0 * n)) / scale
    half = z / scale * math.sqrt(mean * (1.0 - mean) / n + z * z / (4.0 * n * n))
    # The mean lies inside by construction; rounding must not say otherwise.
    return Interval(min(max(centre - half, 0.0), mean), max(min(centre + half, 1.0), mean))


def shrunk_wilson(
    mean: float, variance: float, n_eff: float, kappa: float = KAPPA, z: float = Z95
) -> Interval:
    """Return Wilson's interval on a design variance shrunk towards the largest possible one.

    A small sample of mostly perfect answers often misses the bad ones that weigh most, and its
    variance is then far too small. m(1-m)/n_eff is the largest variance of values in [0, 1];
    `kappa` counts the prior observations that pull towards it.

    Args:
        mean: the estimate in [0, 1].
        variance: its design variance.
        n_eff: Kish's effective sample size, positive.
        kappa: weight of the prior, in observations.
        z: normal quantile of the wanted confidence.

    Raises:
        ValueError: n_eff is not positive.
    """
    largest = mean * (1.0 - mean)
    if largest <= _NEGLIGIBLE or n_eff <= 0.0:
        return wilson(unit(mean), n_eff, z)
    return wilson(mean, largest / shrunk_variance(mean, variance, n_eff, kappa), z)


def shrunk_variance(mean: float, variance: float, n_eff: float, kappa: float) -> float:
    """Return the variance of `shrunk_wilson`, for a positive n_eff."""
    largest = mean * (1.0 - mean)
    return (n_eff * variance + kappa * largest / n_eff) / (n_eff + kappa)


def unit(value: float) -> float:
    """Return the value, or the nearer end of [0, 1] where it lies outside."""
    return min(max(value, 0.0), 1.0)
