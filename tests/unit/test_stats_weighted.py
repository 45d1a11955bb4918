"""The weighted mean, its interval and when it may be shown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scipy.stats import binomtest

from scorers.stats import clusters, inclusion, weighted
from scorers.stats.intervals import shrunk_wilson, wilson
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


def test_cluster_variance_equals_the_robust_sandwich() -> None:
    found = clusters.cluster_variance(Y, P, [0, 0, 1, 2, 2, 3, 4, 5])
    assert found is not None
    assert found.clusters == 6
    assert found.variance == pytest.approx(0.009563565505, abs=1e-9)
    assert clusters.deff(found.variance, 0.00804295313) == pytest.approx(1.189061449, abs=1e-6)


def test_one_conversation_tells_nothing_about_the_spread_between_conversations() -> None:
    assert clusters.cluster_variance([1.0, 0.5], [0.5, 0.5], ["a", "a"]) is None


def test_a_design_effect_stays_between_one_and_five() -> None:
    assert [clusters.deff(v, 1.0) for v in (0.5, 2.0, 9.0)] == [1.0, 2.0, 5.0]
    assert clusters.deff(1.0, 0.0) == 1.0


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
