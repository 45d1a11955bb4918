"""Coverage of the published interval where answers of one conversation resemble each other.

A part of `make coverage-report`: conversations of geometric length, three requests on average, each
with its own share of bad answers (a beta distribution with the intra-class correlation given).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scorers.stats import weighted
from scorers.stats.clusters import NORMAL_FROM, ClusterSums
from scorers.stats.ppi import PpiSums
from scorers.stats.published import published
from scorers.stats.weighted import Estimate, Sums

TRUE_MEAN = 0.85
COVERAGE = (0.93, 0.995)


class Design(NamedTuple):
    """How many conversations there are, how alike their answers, and what share is judged."""

    conversations: int
    correlation: float
    probability: float


class Covered(NamedTuple):
    """Share of intervals that hold the truth, as published and as of independent requests."""

    design: Design
    published: float
    independent: float

    @property
    def broken(self) -> bool:
        """Whether the promise is broken; below 50 conversations there is none."""
        kept = COVERAGE[0] <= self.published <= COVERAGE[1]
        return self.design.conversations >= NORMAL_FROM and not kept

    def line(self) -> str:
        """Return a line of the table."""
        few = self.design.conversations < NORMAL_FROM
        verdict = "BROKEN" if self.broken else "marked as few" if few else "ok"
        return (
            f"{self.design.conversations:<14} {self.design.correlation:<12} "
            f"{self.design.probability:<7} {self.published:>9.3f} {self.independent:>12.3f}  "
            f"{verdict}"
        )


HEADER = "conversations  correlation  judged  published  independent  verdict"
DESIGNS = [
    Design(conversations, correlation, probability)
    for conversations, probability in ((40, 1.0), (100, 1.0), (100, 0.5), (800, 0.12))
    for correlation in (0.5, 0.8)
]


def simulate(replicates: int, seed: int) -> Iterator[Covered]:
    """Yield how each design is covered."""
    for number, design in enumerate(DESIGNS):
        rng = np.random.default_rng([seed, number])
        pairs = [_window(rng, design) for _ in range(replicates)]
        yield Covered(
            design,
            sum(_holds(found) for found, _ in pairs) / replicates,
            sum(_holds(found) for _, found in pairs) / replicates,
        )


def _window(rng: np.random.Generator, design: Design) -> tuple[Estimate, Estimate]:
    sizes = rng.geometric(1 / 3, design.conversations)
    talks = np.repeat(np.arange(design.conversations), sizes)
    spread = (1 - design.correlation) / design.correlation
    bad = rng.beta((1 - TRUE_MEAN) * spread, TRUE_MEAN * spread, design.conversations)
    scores = (rng.random(talks.size) >= bad[talks]).astype(float)
    drawn = rng.random(talks.size) < design.probability
    y, chances = scores[drawn].tolist(), [design.probability] * int(drawn.sum())
    sums = PpiSums(judged=Sums.of(y, chances))
    groups = ClusterSums.of(y, [1.0] * len(y), chances, talks[drawn].tolist())
    return published(sums, groups).estimate, weighted.estimate(sums.judged)


def _holds(found: Estimate) -> bool:
    return found.low is not None and found.high is not None and found.low <= TRUE_MEAN <= found.high
