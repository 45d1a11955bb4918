"""The estimate as it is published: prediction, conversations and display rules together."""

from __future__ import annotations

import msgspec

from scorers.stats import ppi, weighted
from scorers.stats.clusters import NORMAL_FROM, ClusterSums, design_effect
from scorers.stats.ppi import PpiSums
from scorers.stats.weighted import Estimate


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate with the factor by which conversations widened its variance."""

    estimate: Estimate
    design_effect: float
    conversations: int


def published(sums: PpiSums, conversations: ClusterSums) -> Published:
    """Return the estimate of a window.

    Prediction-powered where nearly all requests of the window have a prediction, the plain
    weighted mean elsewhere; the variance is that of conversations where several requests of one
    were judged. Below 50 conversations the estimate is then marked like one of few requests.

    Args:
        sums: of the window.
        conversations: of the same window.
    """
    if not sums.judged.n:
        return Published(
            estimate=weighted.estimate(sums.judged), design_effect=1.0, conversations=0
        )
    lam = 1.0 if sums.usable else 0.0
    effect = design_effect(sums, conversations, lam)
    found = ppi.estimate(sums, lam, effect)
    if found.display == "normal" and effect > 1.0 and conversations.n < NORMAL_FROM:
        found = msgspec.structs.replace(found, display="low_n")
    return Published(estimate=found, design_effect=effect, conversations=conversations.n)
