"""How much conversations widen the interval: requests of one conversation resemble each other.

Source: Liang & Zeger 1986 (cluster-robust variance), Kish 1965 (design effect). The sums of one
conversation span minutes, so this is computed from rows and not from additive sums.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from scorers.stats.weighted import Sums, mean_loss, weights_of


class ClusterVariance(NamedTuple):
    """Variance of the mean when requests of one conversation resemble each other.

    `clusters` is the number of conversations G; below 30 use the t quantile of G - 1 degrees of
    freedom, and trust the number from 50 on.
    """

    variance: float
    clusters: int


def cluster_variance(
    scores: Sequence[float], probabilities: Sequence[float], clusters: Sequence[Hashable]
) -> ClusterVariance | None:
    """Return the cluster-robust variance of the weighted mean, with the factor G/(G-1).

    Args:
        scores: of the judged requests, in [0, 1].
        probabilities: the inclusion probability of each.
        clusters: the conversation of each, any hashable value.

    Returns:
        None where fewer than two conversations leave nothing to compare.

    Raises:
        ValueError: lengths differ, or a value is outside its range.
    """
    sums = Sums.of(scores, probabilities)
    weights = weights_of(probabilities, len(scores))
    members: dict[Hashable, list[tuple[float, float]]] = {}
    for weight, score, cluster in zip(weights, scores, clusters, strict=True):
        members.setdefault(cluster, []).append((weight, score))
    count = len(members)
    if count < 2:
        return None
    mean = 1.0 - mean_loss(sums)
    totals = (math.fsum(w * (y - mean) for w, y in pairs) for pairs in members.values())
    return ClusterVariance(
        count / (count - 1) * math.fsum(total**2 for total in totals) / sums.w**2, count
    )


def deff(clustered: float, independent: float) -> float:
    """Return the design effect: clustered over independent variance, kept within [1, 5].

    1 where the independent variance is 0.
    """
    return min(max(clustered / independent, 1.0), 5.0) if independent else 1.0
