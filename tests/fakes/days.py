"""A simulated day of traffic whose true quality is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from collector.pacing import UNIFORM, Day, Forecast, Spread, bin_of, pace, probability

BY_HOUR = (
    *(0.2, 0.1, 0.1, 0.1, 0.1, 0.2, 0.5, 0.8, 1.2, 1.5, 1.6, 1.6),
    *(1.5, 1.5, 1.6, 1.5, 1.4, 1.3, 1.2, 1.2, 1.1, 1.0, 0.7, 0.4),
)
"""Traffic of an office day, by hour, any unit."""
EVENING = 18


class Request(NamedTuple):
    """One answer: when in the day, its true score and its local score, both in [0, 1]."""

    hour: float
    score: float
    local: float


class Sampled(NamedTuple):
    """What a day left behind: scores and probabilities of drawn requests, and the true mean."""

    scores: list[float]
    probabilities: list[float]
    truth: float


def traffic(
    rng: random.Random, requests: int, by_hour: tuple[float, ...] = BY_HOUR
) -> list[Request]:
    """Return a day whose quality drops in the evening, from .93 to .85, in order of time."""
    hours = sorted(
        hour + rng.random() for hour in rng.choices(range(24), weights=by_hour, k=requests)
    )
    return [Request(hour, *_scores(rng, 0.12 if hour < EVENING else 0.255)) for hour in hours]


def _scores(rng: random.Random, share_bad: float) -> tuple[float, float]:
    claims = rng.randint(3, 10)
    score = int(rng.random() * claims) / claims if rng.random() < share_bad else 1.0
    local = min(max(score + rng.gauss(0.0, 0.25), 0.0), 1.0)
    return score, local


def usual(requests: float, by_hour: tuple[float, ...] = BY_HOUR) -> Forecast:
    """Return the forecast of so many requests a day."""
    return Forecast.of([[requests * part / sum(by_hour) for part in by_hour]], 1.0)


def sampled(
    rng: random.Random,
    requests: list[Request],
    forecast: Forecast,
    budget: float,
    *,
    spread: Spread = UNIFORM,
    floor: float = 0.001,
    watch: Callable[[Day, float, float], None] = lambda day, hour, rate: None,
) -> Sampled:
    """Sample a day as the pacer does."""
    day, scores, probabilities = Day(date(2026, 11, 4)), [], []
    for request in requests:
        now = pace(budget, forecast, day, request.hour)
        rate = probability(now, spread("lookup", bin_of(request.local)), floor)
        watch(day, request.hour, rate)
        day.seen += 1
        if rng.random() < rate:
            day.drawn += 1
            scores.append(request.score)
            probabilities.append(rate)
    truth = sum(request.score for request in requests) / len(requests)
    return Sampled(scores, probabilities, truth)
