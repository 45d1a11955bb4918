"""Comparing two versions on the same questions, floors, and how many questions that takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import permutation_test, ttest_1samp

from scorers.stats import paired, planning

DIFFERENCES = [0, 0, -0.2, -0.5, 0.1, -0.3, 0, -0.25, -0.1, 0, 0.05, -0.4]


def test_exact_mcnemar_looks_only_at_the_questions_that_changed() -> None:
    found = paired.exact_mcnemar(3, 12)
    assert found.p_value == pytest.approx(0.03515625)
    assert found.p_mid == pytest.approx(0.02127075195)
    assert found.p_worse == pytest.approx(0.99630737, abs=1e-6)


def test_as_many_changes_either_way_and_no_change_are_no_evidence() -> None:
    assert paired.exact_mcnemar(10, 10).p_value == pytest.approx(1.0)
    assert paired.exact_mcnemar(0, 0) == (1.0, 1.0, 1.0)


def test_twelve_questions_lost_and_three_gained_are_evidence_of_harm() -> None:
    # P(X >= 12 | 15, 1/2) = 576/32768.
    assert paired.exact_mcnemar(12, 3).p_worse == pytest.approx(576 / 32768)


def test_bonett_price_gives_an_interval_even_without_any_change() -> None:
    assert paired.bonett_price(3, 12, 100) == pytest.approx((0.01088102979, 0.1655895584))
    assert paired.bonett_price(0, 0, 100) == pytest.approx((-0.02717458479, 0.02717458479))


@pytest.mark.parametrize(("worse", "better", "n"), [(-1, 0, 5), (0, -1, 5), (3, 3, 5)])
def test_impossible_counts_are_refused(worse: int, better: int, n: int) -> None:
    with pytest.raises(ValueError, match="counts"):
        paired.bonett_price(worse, better, n)


def test_sign_flips_of_few_differences_are_enumerated() -> None:
    found = paired.sign_flip(DIFFERENCES)
    assert found.p_value == pytest.approx(0.046875)
    assert found.p_worse == pytest.approx(0.046875 / 2)
    assert found.nonzero == 8


def test_sign_flips_of_many_differences_are_drawn_and_repeatable() -> None:
    differences = [-0.1] * 20 + [0.1] * 5
    found = paired.sign_flip(differences, seed=7)
    # Exact: P(|25 - 2 Bin| >= 15) = .00408; 9999 flips stay within four standard errors.
    assert found.p_value == pytest.approx(0.00408, abs=0.0026)
    assert found == paired.sign_flip(differences, seed=7)


def test_sign_flips_are_those_of_scipy() -> None:
    rng = np.random.default_rng(5)
    for size in (2, 5, 10):
        differences = rng.normal(-0.2, 1.0, size)
        found = paired.sign_flip(differences.tolist())
        for ours, alternative in ((found.p_value, "two-sided"), (found.p_worse, "less")):
            theirs = permutation_test(
                (differences,), np.mean, permutation_type="samples", alternative=alternative
            )
            assert ours == pytest.approx(theirs.pvalue)


def test_one_question_that_changed_is_a_coin_that_fell() -> None:
    assert paired.sign_flip([0.0, -0.5]) == (1.0, 0.5, 1)
    assert paired.sign_flip([0.0, 0.5]) == (1.0, 1.0, 1)


def test_no_difference_at_all_is_no_evidence() -> None:
    assert paired.sign_flip([0.0, 0.0]) == (1.0, 1.0, 0)


def test_paired_t_is_students() -> None:
    found = paired.paired_t(DIFFERENCES)
    assert found is not None
    assert found.mean == pytest.approx(-0.1333333333)
    assert (found.low, found.high) == pytest.approx((-0.2562477998, -0.01041886691))
    assert found.p_value == pytest.approx(float(ttest_1samp(DIFFERENCES, 0).pvalue))


def test_equal_runs_are_not_proof_of_equality() -> None:
    found = paired.paired_t([0.0] * 100)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((-0.02717458479, 0.02717458479))


@pytest.mark.parametrize("differences", [[], [0.1], [0.1, 0.1]])
def test_without_spread_there_is_no_interval(differences: list[float]) -> None:
    assert paired.paired_t(differences) is None
    assert paired.bca_interval(differences) is None


def test_bca_interval_of_a_mean() -> None:
    found = paired.bca_interval(DIFFERENCES)
    assert found == pytest.approx((-0.2541666667, -0.04166666667), abs=0.01)
    assert found == paired.bca_interval(DIFFERENCES)


def test_a_score_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        paired.sign_flip([0.1, float("nan")])


def test_a_question_scored_in_one_version_only_counts_as_zero_in_the_other() -> None:
    found = paired.pair_scores(
        {"a": 1.0, "b": 0.5, "c": None, "d": None}, {"a": 0.75, "b": None, "c": 0.5}
    )
    assert found.differences == [-0.25, -0.5, 0.5]
    assert (found.only_old, found.only_new, found.unscored) == (1, 1, 1)


# --- Floors ---------------------------------------------------------------------------------------


def test_holm_multiplies_by_what_is_still_to_be_rejected() -> None:
    assert planning.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert planning.holm([0.9, 0.6]) == [1.0, 1.0]
    assert planning.holm([]) == []
    with pytest.raises(ValueError, match="p_values"):
        planning.holm([1.2])


def test_a_slice_is_below_its_floor_only_when_chance_is_ruled_out() -> None:
    assert planning.below_floor(14, 20, 0.85) == pytest.approx(0.06730797419)
    assert planning.below_floor(40, 50, 0.9) == pytest.approx(0.0245379357)
    assert planning.below_floor(20, 20, 0.85) == 1.0
    with pytest.raises(ValueError, match="passed"):
        planning.below_floor(21, 20, 0.85)


def test_a_mean_floor_fails_on_clear_harm_only_and_less_easily_among_many_slices() -> None:
    scores = [0.6, 0.7, 0.5, 0.8, 0.65] * 10
    assert planning.mean_below_floor(scores, 0.8)
    assert not planning.mean_below_floor([1.0] * 18 + [0.0] * 4, 0.85)
    borderline = next(
        f / 1000 for f in range(650, 1000) if planning.mean_below_floor(scores, f / 1000)
    )
    assert not planning.mean_below_floor(scores, borderline, slices=8)
    with pytest.raises(ValueError, match="scores"):
        planning.mean_below_floor([], 0.8)
    with pytest.raises(ValueError, match="slices"):
        planning.mean_below_floor(scores, 0.8, slices=0)


# --- How many questions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "error", "points"),
    [(20, 0.11, 22), (50, 0.07, 14), (100, 0.05, 10), (200, 0.035, 7), (385, 0.025, 5)],
)
def test_how_exactly_n_questions_measure_a_share(n: int, error: float, points: int) -> None:
    found = planning.precision(n)
    assert found.standard_error == pytest.approx(error, abs=0.002)
    assert round(100 * found.half_width) == points


def test_five_points_need_385_questions() -> None:
    assert planning.questions_for(0.05) == 385


def test_two_runs_scored_apart_need_twice_as_many_each() -> None:
    # The variance of a difference is the sum of both: five points again with 770 each.
    apart = math.hypot(*[planning.precision(2 * 385).half_width] * 2)
    assert apart == pytest.approx(planning.precision(385).half_width)
    assert apart == pytest.approx(0.05, abs=0.0001)


@pytest.mark.parametrize(
    ("changed", "difference", "n"),
    [(0.11, 0.05, 343), (0.15, 0.05, 469), (0.07, 0.05, 218), (0.16, 0.10, 124)],
)
def test_a_paired_comparison_needs_fewer(changed: float, difference: float, n: int) -> None:
    assert planning.questions_for_paired(changed, difference) == n
    detectable = planning.minimum_detectable_difference(n, changed)
    assert detectable == pytest.approx(difference, abs=0.001)


def test_fifty_questions_cannot_see_five_points() -> None:
    detectable = planning.minimum_detectable_difference(50, 0.11)
    assert detectable is None or detectable > 0.1
    assert planning.minimum_detectable_difference(5, 0.05) is None


def test_impossible_plans_are_refused() -> None:
    with pytest.raises(ValueError, match="changed"):
        planning.questions_for_paired(0.05, 0.10)
    with pytest.raises(ValueError, match="half_width"):
        planning.questions_for(0.0)
    with pytest.raises(ValueError, match="n is 0"):
        planning.precision(0)
    with pytest.raises(ValueError, match="n is 0"):
        planning.minimum_detectable_difference(0, 0.1)
    with pytest.raises(ValueError, match="alpha"):
        planning.questions_for_paired(0.1, 0.05, alpha=1.0)
