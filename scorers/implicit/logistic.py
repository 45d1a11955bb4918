"""A small model whose weights can be read: the probability is the logistic of a weighted sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Logistic(NamedTuple):
    """Weights of features, in their order, and what the sum is without any of them."""

    weights: tuple[float, ...]
    intercept: float

    def __call__(self, features: Sequence[float]) -> float:
        """Return the probability, in [0, 1]."""
        pairs = zip(self.weights, features, strict=True)
        return 1 / (1 + math.exp(-self.intercept - sum(w * x for w, x in pairs)))
