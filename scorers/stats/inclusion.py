"""Inclusion probabilities that become known after the first decision.

A request gets the weight of its final probability, also when it was judged before that was
known: the probability "of the phase that picked it" is biased by a point and more. A signal
that is withdrawn later changes nothing: the draw has happened.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from scorers.stats.weighted import Sums, weights_of


def raised_threshold(first: float, second: float) -> float:
    """Return the probability of a request whose threshold was raised under the same hash.

    Args:
        first: the probability at the first decision, in [0, 1].
        second: the one its late signal asks for, in [0, 1].

    Raises:
        ValueError: a probability is outside [0, 1].
    """
    _check(first, second)
    return max(first, second)


def independent_draws(first: float, second: float) -> float:
    """Return the probability of a request that was drawn twice, by independent hashes.

    Args:
        first: the probability of the first draw, in [0, 1].
        second: the one of the second, in [0, 1].

    Raises:
        ValueError: a probability is outside [0, 1].
    """
    _check(first, second)
    return 1.0 - (1.0 - first) * (1.0 - second)


def _check(*probabilities: float) -> None:
    for p in probabilities:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"a probability is {p}: it must lie in [0, 1]")


def missing_at_random(
    scores: Sequence[float | None], probabilities: Sequence[float], bins: Sequence[Hashable]
) -> Sums:
    """Return sums in which judged requests stand in for the failed ones of their bin.

    Right only if within a bin failing has nothing to do with the score; else it removes about
    half of the bias. Show it beside the worst-case bounds, never in their place.

    Args:
        scores: one score in [0, 1] per drawn request, None where judging failed.
        probabilities: the inclusion probability of each.
        bins: of each request, by its predicted score.

    Returns:
        Sums in which only bins without a single judged request still count as failed.

    Raises:
        ValueError: lengths differ, or a value is outside its range.
    """
    weights = weights_of(probabilities, len(scores))
    drawn: dict[Hashable, float] = {}
    judged: dict[Hashable, float] = {}
    for score, weight, place in zip(scores, weights, bins, strict=True):
        drawn[place] = drawn.get(place, 0.0) + weight
        if score is not None:
            judged[place] = judged.get(place, 0.0) + weight
    kept = [
        (score, p * judged[place] / drawn[place] if place in judged else p)
        for score, p, place in zip(scores, probabilities, bins, strict=True)
        if score is not None or place not in judged
    ]
    return Sums.of([score for score, _ in kept], [p for _, p in kept])
