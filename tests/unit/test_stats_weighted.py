"""The weighted mean, its interval and when it may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from scipy.stats import binomtest

from scorers.stats import clusters, inclusion, weighted
from scorers.stats.clusters import ClusterSums
from scorers.stats.intervals import shrunk_wilson, wilson
from scorers.stats.ppi import PpiSums
from scorers.stats.published import published
from scorers.stats.weighted import Estimate, Sums, estimate

P = [0.5, 0.5, 0.1, 0.1, 0.1, 0.02, 0.02, 0.02]
Y = [0.25, 1.0, 1.0, 0.8, 1.0, 1.0, 1.0, 0.6]


def uniform(scores: Sequence[float | None], p: float = 0.5) -> Estimate:
    return estimate(Sums.of(scores, [p] * len(scores)))


def test_mean_and_variance_of_a_sample_with_mixed_probabilities() -> None:
    mean, variance = weighted.hajek(Sums.of(Y, P))
    assert mean == pytest.approx(0.8722826087, abs=1e-9)
    assert variance == pytest.approx(0.00804295313, abs=1e-9)


def test_oversampled_complaints_do_not_pull_the_mean_down() -> None:
    # 200 complaints at .64 judged one in two, 8000 others at .93 judged one in forty.
    scores = [0.64] * 200 + [0.93] * 200
    found = estimate(Sums.of(scores, [0.5] * 200 + [0.025] * 200))
    assert found.mean == pytest.approx((400 * 0.64 + 8000 * 0.93) / 8400)


def test_no_data_is_neither_zero_nor_one() -> None:
    found = estimate(Sums())
    assert (found.mean, found.low, found.high, found.display) == (None, None, None, "no_data")


@pytest.mark.parametrize(
    ("n", "display"), [(7, "hidden"), (8, "low_n"), (29, "low_n"), (30, "normal")]
)
def test_the_effective_sample_size_decides_what_is_shown(n: int, display: str) -> None:
    # A weight of 10/3 makes Kish's n_eff of 30 equal weights 29.999999999999996.
    assert uniform([1.0] * n, p=0.3).display == display


@pytest.mark.parametrize(("n", "low"), [(1, 0.2065493144), (20, 0.8388748419), (50, 0.928652)])
def test_perfect_answers_leave_room_for_doubt_that_shrinks_with_their_number(
    n: int, low: float
) -> None:
    found = uniform([1.0] * n)
    assert (found.mean, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(low, abs=1e-6)


def test_one_small_loss_never_makes_the_interval_claim_more_than_no_loss_at_all() -> None:
    perfect, flawed = uniform([1.0] * 60), uniform([1.0] * 59 + [0.9])
    assert flawed.mean is not None
    assert flawed.low is not None
    assert perfect.low is not None
    assert flawed.mean < 1.0
    assert flawed.low <= perfect.low + 1e-12


def test_weights_within_ten_times_use_the_shrunk_interval() -> None:
    scores, p = [1.0, 0.0] * 20, [0.05, 0.5] * 20
    found = estimate(Sums.of(scores, p))
    mean, variance = weighted.hajek(Sums.of(scores, p))
    assert found.method == "hajek_shrunk_wilson"
    assert (found.low, found.high) == shrunk_wilson(mean, variance, found.n_eff, 10)


def test_weights_further_apart_use_kish_alone() -> None:
    found = estimate(Sums.of(Y, P))
    assert found.method == "hajek_kish_wilson"
    assert (found.low, found.high) == pytest.approx((0.4094454626, 0.9853541676), abs=1e-9)


def test_an_unknown_range_of_weights_uses_kish_too() -> None:
    known = Sums.of([1.0, 0.5] * 20, [0.5] * 40)
    unknown = Sums(
        n=known.n,
        w=known.w,
        wl=known.wl,
        wll=known.wll,
        w2=known.w2,
        w2l=known.w2l,
        w2ll=known.w2ll,
    )
    assert estimate(unknown).method == "hajek_kish_wilson"
    assert estimate(known + unknown).method == "hajek_kish_wilson"


def test_an_empty_minute_does_not_make_the_weights_unknown() -> None:
    known = Sums.of([1.0, 0.5] * 20, [0.5] * 40)
    assert Sums() + known == known + Sums() == known


def test_a_record_with_a_quarter_of_the_weight_is_flagged() -> None:
    scores = [1.0] * 100
    assert estimate(Sums.of(scores, [0.5] * 99 + [0.01])).dominated
    assert not estimate(Sums.of(scores, [0.5] * 100)).dominated


def test_wilson_agrees_with_scipy_on_whole_counts() -> None:
    expected = binomtest(17, 60).proportion_ci(method="wilson")
    assert wilson(17 / 60, 60) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_conversations_that_cluster_widen_the_interval() -> None:
    sums = Sums.of([1.0, 0.4] * 30, [0.5] * 60)
    plain, clustered = estimate(sums), estimate(sums, design_effect=2.0)
    assert plain.low is not None
    assert clustered.low is not None
    assert plain.mean == clustered.mean
    assert clustered.low < plain.low


# --- Failed judgements ------------------------------------------------------------------------


def test_a_failed_judgement_is_no_zero_but_bounds_the_mean() -> None:
    found = estimate(Sums.of([1.0, 0.5, None, 1.0], [0.5, 0.1, 0.1, 0.02]))
    assert found.mean == pytest.approx(0.9193548387)
    assert (found.bounds_low, found.bounds_high) == pytest.approx((0.7916666667, 0.9305555556))


@pytest.mark.parametrize(
    ("failed", "bounded", "degraded"), [(2, False, False), (3, True, False), (11, True, True)]
)
def test_failures_are_bounded_above_two_percent_and_degrade_above_ten(
    failed: int, bounded: bool, degraded: bool
) -> None:
    found = uniform([1.0] * (100 - failed) + [None] * failed)
    assert (found.bounds_low is not None, found.degraded) == (bounded, degraded)
    assert found.usable_for_alerts is not degraded


def test_worst_case_ends_hold_both_interval_and_bounds() -> None:
    found = uniform([1.0, 0.6] * 30 + [None] * 5)
    assert found.worst_low is not None
    assert found.worst_high is not None
    assert found.bounds_low is not None
    assert found.bounds_high is not None
    assert found.worst_low < found.bounds_low < found.bounds_high < found.worst_high


def test_when_everything_failed_nothing_is_known() -> None:
    found = uniform([None] * 40)
    assert (found.mean, found.display, found.degraded) == (None, "no_data", True)
    assert (found.bounds_low, found.bounds_high) == (0.0, 1.0)


def test_judged_requests_stand_in_for_failed_ones_of_their_bin() -> None:
    # Bin b: one judged of two, so its weight doubles: (1 + 1 + 2 * .5) / 4.
    sums = inclusion.missing_at_random([1.0, 1.0, 0.5, None], [0.5] * 4, ["a", "a", "b", "b"])
    assert weighted.hajek(sums).mean == pytest.approx(0.75)
    assert sums.w == pytest.approx(8.0)
    assert sums.n_failed == 0


def test_a_bin_without_any_judged_request_still_counts_as_failed() -> None:
    sums = inclusion.missing_at_random([1.0, None], [0.5, 0.25], ["a", "b"])
    assert (sums.n, sums.n_failed, sums.w_failed) == (1, 1, 4.0)


def test_a_late_signal_reweights_also_what_was_judged_before_it() -> None:
    assert inclusion.raised_threshold(0.03, 0.5) == 0.5
    assert inclusion.independent_draws(0.03, 0.5) == pytest.approx(0.515)


def test_the_smallest_window_with_enough_data_is_named() -> None:
    hour, day = Sums.of([1.0] * 10, [0.5] * 10), Sums.of([1.0] * 40, [0.5] * 40)
    assert weighted.smallest_usable([("1h", hour), ("24h", day)])[0] == "24h"
    name, found = weighted.smallest_usable([("1h", hour), ("6h", hour)])
    assert (name, found.display) == ("6h", "low_n")


# --- Clusters ---------------------------------------------------------------------------------


def window(
    scores: list[float], probabilities: list[float], talks: list[Any]
) -> tuple[PpiSums, ClusterSums]:
    """Return the sums of a window without predictions."""
    zeros = [1.0] * len(scores)
    sums = PpiSums.of(scores, zeros, probabilities, requests=len(scores), h=0.0)
    return sums, ClusterSums.of(scores, zeros, probabilities, talks)


def test_cluster_variance_equals_the_robust_sandwich() -> None:
    sums, talks = window(Y, P, [0, 0, 1, 2, 2, 3, 4, 5])
    variance = clusters.cluster_variance(sums, talks)
    assert talks.n == 6
    assert variance == pytest.approx(0.009563565505, abs=1e-9)
    assert variance is not None
    # Reference case c1 is 1.189061449; of six conversations Student's quantile is 2.5706.
    effect = 1.189061449 * (2.5705818 / 1.9599640) ** 2
    assert clusters.design_effect(sums, talks) == pytest.approx(effect, abs=1e-6)


def test_the_design_effect_of_the_residuals_counts_where_a_prediction_is_used() -> None:
    predictions = [min(y + 0.1, 1.0) for y in Y]
    sums = PpiSums.of(Y, predictions, P, requests=40, h=4.0)
    talks = ClusterSums.of(Y, predictions, P, [0, 0, 1, 2, 2, 3, 4, 5])
    residuals = [y - g for y, g in zip(Y, predictions, strict=True)]
    weights = [1 / p for p in P]
    mean = sum(w * e for w, e in zip(weights, residuals, strict=True)) / sum(weights)
    by_talk: dict[int, float] = {}
    for talk, w, e in zip([0, 0, 1, 2, 2, 3, 4, 5], weights, residuals, strict=True):
        by_talk[talk] = by_talk.get(talk, 0.0) + w * (e - mean)
    expected = 6 / 5 * sum(s**2 for s in by_talk.values()) / sum(weights) ** 2
    assert clusters.cluster_variance(sums, talks, 1.0) == pytest.approx(expected)


def test_one_conversation_leaves_one_observation() -> None:
    sums, talks = window([1.0, 0.5], [0.5, 0.5], ["a", "a"])
    assert clusters.cluster_variance(sums, talks) is None
    assert clusters.design_effect(sums, talks) == 2.0
    found = published(sums, talks).estimate
    assert (found.low, found.high) == pytest.approx(wilson(0.75, 1.0), abs=0.08)


def test_requests_that_stand_alone_and_equal_scores_widen_nothing() -> None:
    assert clusters.design_effect(*window(Y, P, list(range(8)))) == 1.0
    assert clusters.design_effect(*window([1.0] * 8, P, [0, 0, 1, 1, 2, 2, 3, 3])) == 1.0


def test_many_requests_of_few_conversations_are_marked_as_few() -> None:
    scores = [1.0, 0.5] * 20
    few = published(*window(scores, [1.0] * 40, [i // 4 for i in range(40)]))
    many = published(*window(scores, [1.0] * 40, list(range(40))))
    assert (few.estimate.display, few.conversations) == ("low_n", 10)
    assert many.estimate.display == "normal"


# --- Bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1, float("nan")])
def test_an_impossible_probability_is_named(p: float) -> None:
    with pytest.raises(ValueError, match="probabilities holds"):
        Sums.of([1.0], [p])


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_an_impossible_score_is_named(score: float) -> None:
    with pytest.raises(ValueError, match="scores holds"):
        Sums.of([score], [0.5])


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="probabilities has 1 entries for 2 requests"):
        Sums.of([1.0, 1.0], [0.5])


def test_there_is_no_mean_of_nothing() -> None:
    with pytest.raises(ValueError, match="nothing was judged"):
        weighted.hajek(Sums())
