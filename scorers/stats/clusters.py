"""How much conversations widen the interval: requests of one conversation resemble each other.

Source: Liang & Zeger 1986 (cluster-robust variance), Kish 1965 (design effect).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec
from scipy.special import stdtrit

from scorers.stats.intervals import Z95
from scorers.stats.ppi import PpiSums
from scorers.stats.weighted import mean_loss, weights_of

NORMAL_FROM = 50
"""With fewer conversations than this, the variance between them is itself poorly known."""


class ClusterSums(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster-robust variance needs to know of a window: sums over conversations.

    `n` is the number of conversations with a judged request. With W = Σ w, A = Σ w L and
    B = Σ w H over the judged requests of one conversation, the others are the sums of W², WA,
    WB, A², AB and B² over all of them. They do not add up over windows or segments that share
    conversations: ask for the window that is wanted.
    """

    n: int = 0
    ww: float = 0.0
    wa: float = 0.0
    wb: float = 0.0
    aa: float = 0.0
    ab: float = 0.0
    bb: float = 0.0

    @classmethod
    def of(
        cls,
        scores: Sequence[float],
        predictions: Sequence[float],
        probabilities: Sequence[float],
        conversations: Sequence[Hashable],
    ) -> ClusterSums:
        """Add up judged requests by conversation.

        Args:
            scores: of the judged requests, in [0, 1].
            predictions: in [0, 1], of each.
            probabilities: the inclusion probability of each, 0 < p <= 1.
            conversations: of each, any hashable value.

        Raises:
            ValueError: lengths differ, or a probability is outside its range.
        """
        weights = weights_of(probabilities, len(scores))
        totals: dict[Hashable, tuple[float, float, float]] = {}
        for weight, y, g, talk in zip(weights, scores, predictions, conversations, strict=True):
            w, a, b = totals.get(talk, (0.0, 0.0, 0.0))
            totals[talk] = (w + weight, a + weight * (1.0 - y), b + weight * (1.0 - g))
        parts = totals.values()
        return cls(
            n=len(totals),
            ww=sum(w * w for w, _, _ in parts),
            wa=sum(w * a for w, a, _ in parts),
            wb=sum(w * b for w, _, b in parts),
            aa=sum(a * a for _, a, _ in parts),
            ab=sum(a * b for _, a, b in parts),
            bb=sum(b * b for _, _, b in parts),
        )


def cluster_variance(sums: PpiSums, conversations: ClusterSums, lam: float = 0.0) -> float | None:
    """Return the cluster-robust variance of the mean of L - lam H, with the factor G/(G-1).

    Trust it from 50 conversations on. None where fewer than two leave nothing to compare.

    Args:
        sums: of the window.
        conversations: of the same window.
        lam: weight of the prediction; 0 for the plain mean.
    """
    c = conversations
    if c.n < 2:
        return None
    spread = _spread((c.aa, c.ab, c.bb), (c.wa, c.wb), c.ww, _mean(sums, lam), lam)
    return c.n / (c.n - 1) * spread / sums.judged.w**2


def design_effect(sums: PpiSums, conversations: ClusterSums, lam: float = 0.0) -> float:
    """Return by which factor conversations widen the variance, at least 1.

    The cluster-robust variance over the one of independent requests, times what turns the normal
    quantile into Student's for as many conversations. Of a single conversation nobody can tell the
    variance: the factor leaves one observation.

    Args:
        sums: of the window, with a judged request.
        conversations: of the same window.
        lam: weight of the prediction; 0 for the plain mean.
    """
    judged, groups = sums.judged, conversations.n
    if groups >= judged.n:
        return 1.0
    clustered = cluster_variance(sums, conversations, lam)
    if clustered is None:
        return judged.w**2 / judged.w2
    squares, crossed = (judged.w2ll, sums.w2lh, sums.w2hh), (judged.w2l, sums.w2h)
    spread = _spread(squares, crossed, judged.w2, _mean(sums, lam), lam)
    # Nothing but rounding is left where no score differs from the others.
    if spread <= 1e-12 * judged.w2:
        return 1.0
    student = float(stdtrit(groups - 1, 0.975)) / Z95
    return max(clustered * judged.w**2 / spread, 1.0) * student**2


def _mean(sums: PpiSums, lam: float) -> float:
    return mean_loss(sums.judged) - lam * sums.wh / sums.judged.w


def _spread(
    squares: tuple[float, float, float],
    crossed: tuple[float, float],
    weight: float,
    mean: float,
    lam: float,
) -> float:
    """Return Σ (A - lam B - mean W)², from its expanded parts."""
    aa, ab, bb = squares
    a, b = crossed
    return aa - 2.0 * lam * ab + lam**2 * bb - 2.0 * mean * (a - lam * b) + mean**2 * weight
