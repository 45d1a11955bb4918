"""What must hold of the estimates whatever the data."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from scorers.stats import ppi, sequential, weighted
from scorers.stats.intervals import Z95, shrunk_wilson, wilson
from scorers.stats.ppi import PpiSums
from scorers.stats.weighted import Sums

SCORE = st.floats(0.0, 1.0)
PROBABILITY = st.floats(0.001, 1.0)
RECORD = st.tuples(SCORE, SCORE, PROBABILITY)
RECORDS = st.lists(RECORD, min_size=1, max_size=30)
Records = list[tuple[float, float, float]]


def sums_of(records: Records) -> Sums:
    return Sums.of([y for y, _, _ in records], [p for _, _, p in records])


def ppi_sums_of(records: Records, unjudged: list[float]) -> PpiSums:
    predictions = [g for _, g, _ in records]
    return PpiSums.of(
        [y for y, _, _ in records],
        predictions,
        [p for _, _, p in records],
        requests=len(records) + len(unjudged),
        h=math.fsum(1 - g for g in predictions + unjudged),
    )


def same(one: Any, other: Any) -> None:
    for field in one.__struct_fields__:
        a, b = getattr(one, field), getattr(other, field)
        if isinstance(a, Sums):
            same(a, b)
        else:
            assert a == pytest.approx(b, rel=1e-9, abs=1e-9), field


@given(st.lists(RECORD, max_size=30), st.data())
def test_minutes_add_up_to_the_hour_in_any_split_and_order(
    records: Records, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(records))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=4)))
    parts = [shuffled[a:b] for a, b in itertools.pairwise([0, *cuts, len(records)])]
    same(sum(map(sums_of, parts), start=Sums()), sums_of(records))
    added = sum((ppi_sums_of(part, []) for part in parts), start=PpiSums())
    same(added, ppi_sums_of(records, []))


@given(st.lists(SCORE, min_size=1, max_size=30), PROBABILITY)
def test_equal_probabilities_give_the_plain_mean(scores: list[float], p: float) -> None:
    mean, variance = weighted.hajek(Sums.of(scores, [p] * len(scores)))
    plain = math.fsum(scores) / len(scores)
    assert mean == pytest.approx(plain, abs=1e-12)
    expected = math.fsum((y - plain) ** 2 for y in scores) / len(scores) ** 2
    assert variance == pytest.approx(expected, abs=1e-9)


@given(RECORDS, st.floats(0.01, 1.0))
def test_only_the_ratios_of_the_weights_matter(records: Records, factor: float) -> None:
    scaled = [(y, g, p * factor) for y, g, p in records]
    one, other = sums_of(records), sums_of(scaled)
    assert weighted.hajek(one) == pytest.approx(weighted.hajek(other), abs=1e-9)
    assert weighted.kish_n_eff(one) == pytest.approx(weighted.kish_n_eff(other))


@given(st.lists(PROBABILITY, min_size=1, max_size=60))
def test_perfect_scores_give_the_closed_form(probabilities: list[float]) -> None:
    found = weighted.estimate(Sums.of([1.0] * len(probabilities), probabilities))
    assert (found.mean, found.high, found.variance) == (1.0, 1.0, 0.0)
    assert found.low == pytest.approx(found.n_eff / (found.n_eff + Z95**2))


@given(RECORDS, st.lists(SCORE, max_size=30))
def test_without_weight_on_the_prediction_the_mean_is_the_plain_one(
    records: Records, unjudged: list[float]
) -> None:
    sums = ppi_sums_of(records, unjudged)
    assert ppi.difference(sums, 0.0).mean == pytest.approx(weighted.hajek(sums.judged).mean)
    assert ppi.estimate(sums, 0.0) == weighted.estimate(sums.judged)


@given(st.lists(st.tuples(SCORE, PROBABILITY), min_size=1, max_size=30), st.lists(SCORE))
def test_a_perfect_prediction_gives_the_exact_mean_of_the_traffic(
    judged: list[tuple[float, float]], unjudged: list[float]
) -> None:
    records = [(y, y, p) for y, p in judged]
    sums = ppi_sums_of(records, unjudged)
    every = [y for y, _ in judged] + unjudged
    assert ppi.difference(sums).mean == pytest.approx(math.fsum(every) / len(every), abs=1e-9)
    assert ppi.finite_variance(sums) == pytest.approx(0.0, abs=1e-9)


@given(st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=30))
def test_judging_everything_leaves_no_sampling_error(pairs: list[tuple[float, float]]) -> None:
    records = [(y, g, 1.0) for y, g in pairs]
    assert weighted.finite_variance(sums_of(records)) == pytest.approx(0.0, abs=1e-12)
    assert ppi.finite_variance(ppi_sums_of(records, [])) == pytest.approx(0.0, abs=1e-12)


@given(RECORDS)
def test_losses_tell_the_same_as_scores(records: Records) -> None:
    w = [1 / p for _, _, p in records]
    y = [score for score, _, _ in records]
    total = math.fsum(w)
    mean = math.fsum(a * b for a, b in zip(w, y, strict=True)) / total
    spread = math.fsum((a * (b - mean)) ** 2 for a, b in zip(w, y, strict=True))
    found = weighted.hajek(sums_of(records))
    assert found.mean == pytest.approx(mean, abs=1e-9)
    assert found.variance == pytest.approx(spread / total**2, abs=1e-9)


@given(st.lists(st.tuples(SCORE, st.floats(0.05, 1.0)), min_size=1, max_size=6))
def test_over_all_samples_horvitz_thompson_is_right_on_average(
    population: list[tuple[float, float]],
) -> None:
    expected = 0.0
    for drawn in itertools.product((False, True), repeat=len(population)):
        chance = math.prod(p if d else 1 - p for (_, p), d in zip(population, drawn, strict=True))
        taken = [pair for pair, d in zip(population, drawn, strict=True) if d]
        found = weighted.horvitz_thompson(
            [y for y, _ in taken], [p for _, p in taken], len(population)
        )
        expected += chance * found.mean
    truth = math.fsum(y for y, _ in population) / len(population)
    assert expected == pytest.approx(truth, abs=1e-9)


@given(st.floats(0.01, 0.5), st.lists(SCORE, max_size=50))
def test_the_detector_never_falls_below_zero(baseline: float, losses: list[float]) -> None:
    bet = sequential.largest_bet(baseline)
    detector = sequential.ShiryaevRoberts(baseline=baseline, bet=bet, threshold=1e9)
    for loss in losses:
        detector = detector.observe(loss)
        assert detector.value >= 0.0


@given(st.floats(0.01, 0.5), st.integers(1, 200))
def test_on_losses_at_the_baseline_the_detector_counts_records(baseline: float, n: int) -> None:
    detector = sequential.ShiryaevRoberts(baseline=baseline, threshold=1e9)
    for _ in range(n):
        detector = detector.observe(baseline)
    assert detector.value == pytest.approx(n)


@given(RECORDS, st.lists(SCORE, max_size=30))
def test_an_interval_lies_in_the_unit_range_and_holds_its_mean(
    records: Records, unjudged: list[float]
) -> None:
    sums = ppi_sums_of(records, unjudged)
    for found in (weighted.estimate(sums.judged), ppi.estimate(sums)):
        assert found.low is not None
        assert found.mean is not None
        assert found.high is not None
        assert 0.0 <= found.low <= found.mean <= found.high <= 1.0


@example(mean=5e-324, n=1.0)
@given(SCORE, st.floats(1.0, 500.0))
def test_shrinking_the_largest_variance_changes_nothing(mean: float, n: float) -> None:
    largest = mean * (1 - mean) / n
    assert shrunk_wilson(mean, largest, n, 10) == pytest.approx(wilson(mean, n), abs=1e-9)


@given(SCORE, st.floats(0.0, 0.1), st.floats(0.001, 1.0), st.floats(0.001, 1.0))
def test_a_heavier_unseen_loss_never_lowers_the_bound(
    loss: float, variance: float, one: float, other: float
) -> None:
    assume(loss > 0.0 or variance == 0.0)
    light, heavy = sorted((one, other))
    lower = ppi.unseen_loss_bound(loss, variance, light)
    assert ppi.unseen_loss_bound(loss, variance, heavy) >= lower - 1e-9


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40),
    st.floats(0.1, 40.0),
    st.floats(0.05, 1.0),
    st.floats(0.05, 1.0),
)
def test_active_probabilities_add_up_to_the_budget_and_judge_the_uncertain_more(
    sds: list[float], budget: float, tau: float, cap: float
) -> None:
    p = ppi.active_probabilities(sds, budget, tau, cap)
    assert math.fsum(p) == pytest.approx(min(budget, cap * len(sds)), rel=1e-6)
    assert all(0.0 < one <= cap * (1 + 1e-9) for one in p)
    by_sd = [one for _, one in sorted(zip(sds, p, strict=True))]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(by_sd))
