"""A budget of judgements is spent evenly, whatever the forecast said, and biases nothing."""

from __future__ import annotations

import random
from datetime import date
from statistics import mean

import pytest

from collector.pacing import (
    HOURS,
    NO_SCORE,
    UNIFORM,
    Day,
    Forecast,
    Spread,
    bin_of,
    pace,
    probability,
)
from scorers.stats.weighted import Sums, estimate
from tests.fakes.days import BY_HOUR, Sampled, sampled, traffic, usual

TODAY = date(2026, 11, 4)
BUDGET = 600
REQUESTS = 6_000
EVEN = BUDGET / REQUESTS


def day_of(seed: int, forecast: Forecast, spread: Spread = UNIFORM) -> Sampled:
    rng = random.Random(seed)
    return sampled(rng, traffic(rng, REQUESTS), forecast, BUDGET, spread=spread)


def spread_of_the_past() -> Spread:
    """Return what judging every request of another day teaches."""
    cells: dict[int, list[float]] = {}
    for request in traffic(random.Random(99), REQUESTS):
        cells.setdefault(bin_of(request.local), []).append(1 - request.score)
    return Spread.of(
        {
            "segment": "lookup",
            "bin": bin,
            "n": len(losses),
            "w": float(len(losses)),
            "wl": sum(losses),
            "wll": sum(loss**2 for loss in losses),
        }
        for bin, losses in cells.items()
    )


# --- The day -------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("spread", ["uniform", "past"])
def test_a_wrong_forecast_and_an_evening_drop_cost_neither_budget_nor_truth(
    factor: float, spread: str
) -> None:
    learned = UNIFORM if spread == "uniform" else spread_of_the_past()
    days = [day_of(seed, usual(factor * REQUESTS), learned) for seed in range(100)]
    for one in days:
        assert len(one.scores) == pytest.approx(BUDGET, rel=0.02)
    errors = [
        (estimate(Sums.of(one.scores, one.probabilities)).mean or 0.0) - one.truth for one in days
    ]
    # The standard error of this mean is .0010 with equal weights, .0008 with the spread.
    assert abs(mean(errors)) < 0.002


def test_a_first_day_of_which_only_the_size_is_known_is_paced_like_any() -> None:
    rng = random.Random(3)
    day = sampled(rng, traffic(rng, REQUESTS), Forecast.of([], REQUESTS), BUDGET)
    assert len(day.scores) == pytest.approx(BUDGET, rel=0.03)


def test_a_day_that_was_never_seen_before_is_paced_by_itself() -> None:
    # A flat guess that is ten times too low, and the traffic comes in the evening only.
    evening = tuple(1.0 if hour >= 16 else 0.02 for hour in range(HOURS))
    rng = random.Random(1)
    day = sampled(rng, traffic(rng, REQUESTS, evening), Forecast.of([], REQUESTS / 10), BUDGET)
    assert len(day.scores) == pytest.approx(BUDGET, rel=0.25)


def test_the_evening_is_judged_like_the_rest_of_the_day() -> None:
    rates: dict[bool, list[float]] = {True: [], False: []}
    rng = random.Random(2)
    sampled(
        rng,
        traffic(rng, REQUESTS),
        usual(REQUESTS / 2),
        BUDGET,
        watch=lambda day, hour, rate: rates[hour >= 18].append(rate),
    )
    assert mean(rates[True]) == pytest.approx(mean(rates[False]), rel=0.1)


def test_weights_of_a_day_stay_within_the_range_of_the_narrow_interval() -> None:
    for factor in (0.5, 1.0, 2.0):
        day = day_of(3, usual(factor * REQUESTS))
        assert max(day.probabilities) / min(day.probabilities) < 10


def test_failures_that_depend_on_the_score_widen_the_bounds_over_the_truth() -> None:
    # The traffic of the statistics reference: 5 % of perfect answers fail, 35 % of the others,
    # and for two hours the endpoint answers 429 to half of what it is asked.
    for seed in range(40):
        rng = random.Random(seed)
        day = day_of(seed, usual(2 * REQUESTS), spread_of_the_past())
        scores = [
            None if rng.random() < (0.05 if score == 1.0 else 0.35) else score
            for score in day.scores
        ]
        busy = range(len(scores) // 2, len(scores) // 2 + len(scores) // 12)
        scores = [
            None if at in busy and rng.random() < 0.5 else score for at, score in enumerate(scores)
        ]
        found = estimate(Sums.of(scores, day.probabilities))
        assert found.degraded
        assert found.worst_low is not None
        assert found.worst_high is not None
        assert found.worst_low <= day.truth <= found.worst_high


# --- The pace ------------------------------------------------------------------------------


def test_before_the_day_begins_the_pace_is_the_budget_over_the_forecast() -> None:
    assert pace(BUDGET, usual(REQUESTS), Day(TODAY), 0.0) == pytest.approx(EVEN)


def test_twice_the_traffic_halves_the_pace() -> None:
    at_noon = usual(REQUESTS).between(0, 12)
    day = Day(TODAY, seen=round(2 * at_noon), drawn=round(EVEN / 2 * 2 * at_noon))
    assert pace(BUDGET, usual(REQUESTS), day, 12.0) == pytest.approx(EVEN / 2, rel=0.02)


def test_what_was_spent_too_fast_is_made_good_without_ever_stopping() -> None:
    at_noon = round(usual(REQUESTS).between(0, 12))
    ahead = pace(BUDGET, usual(REQUESTS), Day(TODAY, seen=at_noon, drawn=400), 12.0)
    spent = pace(BUDGET, usual(REQUESTS), Day(TODAY, seen=at_noon, drawn=BUDGET), 12.0)
    twice = pace(BUDGET, usual(REQUESTS), Day(TODAY, seen=at_noon, drawn=2 * BUDGET), 12.0)
    assert ahead < EVEN
    assert spent == pytest.approx(EVEN / 2, rel=0.01)
    assert twice == pytest.approx(EVEN / 10, rel=0.01)


def test_the_last_minute_does_not_get_what_a_quiet_day_left_over() -> None:
    quiet = Day(TODAY, seen=REQUESTS, drawn=0)
    assert pace(BUDGET, usual(REQUESTS), quiet, 23.99) == pytest.approx(2 * EVEN, rel=0.01)


def test_an_agent_that_starts_at_noon_expects_nothing_of_the_morning() -> None:
    late = pace(BUDGET, usual(REQUESTS), Day(TODAY, since=12.0), 12.0)
    assert late == pytest.approx(BUDGET / usual(REQUESTS).between(12, 24))


def test_the_forecast_is_the_mean_of_past_days_by_hour() -> None:
    forecast = Forecast.of([[10.0] * 24, [20.0] * 12 + [40.0] * 12], otherwise=1.0)
    assert forecast.between(0, 12) == pytest.approx(12 * 15)
    assert forecast.between(11.5, 12.5) == pytest.approx(7.5 + 12.5)
    assert forecast.between(0, 24) == pytest.approx(12 * 15 + 12 * 25)


def test_without_a_past_the_day_is_expected_evenly() -> None:
    assert Forecast.of([], otherwise=240.0).between(6, 12) == pytest.approx(60)


# --- The spread ----------------------------------------------------------------------------


def test_a_score_has_one_of_five_bins_and_a_perfect_one_its_own() -> None:
    assert [bin_of(score) for score in (0.0, 0.199, 0.2, 0.6, 0.99, 1.0, None)] == [
        *(0, 0, 1, 3, 4, 5),
        NO_SCORE,
    ]


def cell(segment: str, bin: int, n: int, losses: list[float]) -> dict[str, object]:
    w = 2.0 * n
    first = sum(losses) / len(losses)
    second = sum(loss**2 for loss in losses) / len(losses)
    return {"segment": segment, "bin": bin, "n": n, "w": w, "wl": w * first, "wll": w * second}


def test_where_the_judge_surprises_more_is_drawn_more() -> None:
    # Standard deviations of .5 and .1; with 500 answers each five average ones change little.
    spread = Spread.of([cell("a", 1, 500, [0.0, 1.0]), cell("a", 5, 500, [0.0, 0.2])])
    assert spread("a", 1) / spread("a", 5) == pytest.approx(5, rel=0.15)
    assert (spread("a", 1) + spread("a", 5)) / 2 == pytest.approx(1.0)


def test_an_unknown_segment_is_drawn_by_the_overall_spread() -> None:
    spread = Spread.of([cell("a", 1, 500, [0.0, 1.0]), cell("a", 5, 500, [0.0, 0.2])])
    assert spread("a", 5) < spread("new", 1) < spread("a", 1)


@pytest.mark.parametrize(
    "rows",
    [[], [cell("a", 1, 49, [0.0, 1.0])], [cell("a", 1, 500, [0.0]), cell("a", 2, 500, [0.0])]],
    ids=["nothing judged", "too little judged", "never a surprise"],
)
def test_too_little_of_a_past_leaves_sampling_uniform(rows: list[dict[str, object]]) -> None:
    assert Spread.of(rows) == UNIFORM
    assert Spread.of(rows)("a", 1) == 1.0


@pytest.mark.parametrize(
    ("pace", "spread", "expected"),
    [(0.1, 1.0, 0.1), (0.1, 3.0, 0.2), (0.1, 0.0, 0.05), (0.001, 0.5, 0.01), (0.9, 2.0, 1.0)],
)
def test_half_of_the_probability_is_the_same_for_all_and_none_is_below_the_floor(
    pace: float, spread: float, expected: float
) -> None:
    assert probability(pace, spread, floor=0.01) == pytest.approx(expected)


def test_the_profile_of_the_simulated_day_has_an_hour_for_every_hour() -> None:
    assert len(BY_HOUR) == HOURS
