"""Wilson's interval for shares and for bounded scores of a weighted sample.

Source: Wilson 1927; the shrinkage of the design variance is this project's reference method.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from scipy.special import gammaincinv

Z95 = NormalDist().inv_cdf(0.975)
"""Two-sided 95 % quantile of the standard normal distribution."""

KAPPA = 10.0
KAPPA_PPI = 3.0
"""Prior observations at the largest possible variance: for the plain weighted mean, and for
prediction-powered estimates."""


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
    if largest <= 0.0 or n_eff <= 0.0:
        return wilson(unit(mean), n_eff, z)
    shrunk = (n_eff * variance + kappa * largest / n_eff) / (n_eff + kappa)
    return wilson(mean, largest / shrunk, z)


def unseen_loss_bound(loss: float, variance: float, largest_share: float, z: float = Z95) -> float:
    """Return an upper bound of a mean loss in which rare losses may weigh far more than others.

    A gamma distribution with the mean and variance of the estimate plus half an unseen, complete
    loss of the largest weight: the mid-p form of Fay & Feuer 1997, made for weighted sums of
    Poisson counts such as standardised rates.

    Args:
        loss: the estimated mean loss; below 0 counts as 0.
        variance: its design variance.
        largest_share: the largest weight over the sum of all weights, positive.
        z: normal quantile of the wanted confidence.

    Returns:
        The bound, at most 1.
    """
    mean = max(loss, 0.0) + largest_share / 2.0
    spread = variance + (largest_share / 2.0) ** 2
    level = NormalDist().cdf(z)
    return min(float(gammaincinv(mean**2 / spread, level)) * spread / mean, 1.0)


def unit(value: float) -> float:
    """Return the value, or the nearer end of [0, 1] where it lies outside."""
    return min(max(value, 0.0), 1.0)
