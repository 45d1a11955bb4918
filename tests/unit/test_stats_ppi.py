"""Prediction-powered estimates: a free score on everything, a judge on a sample."""

from __future__ import annotations

import numpy as np
import pytest

from scorers.stats import ppi, score_calibration, weighted
from scorers.stats.ppi import PpiSums

P = [0.5, 0.5, 0.1, 0.1, 0.1, 0.02, 0.02, 0.02]
Y = [0.25, 1.0, 1.0, 0.8, 1.0, 1.0, 1.0, 0.6]
G = [0.3, 0.9, 0.95, 0.7, 0.9, 0.85, 0.95, 0.5]


def sums() -> PpiSums:
    return PpiSums.of(Y, G, P, requests=230, h=230 - 190.9)


def test_mean_and_variances_of_the_difference_estimator() -> None:
    mean, variance = ppi.difference(sums())
    assert mean == pytest.approx(0.9256521739, abs=1e-9)
    assert variance == pytest.approx(0.0005269758653, abs=1e-9)
    assert ppi.finite_variance(sums()) == pytest.approx(0.0003728255509, abs=1e-9)
    assert ppi.optimal_lambda(sums()) == pytest.approx(0.9530334104, abs=1e-9)


def test_a_good_prediction_narrows_the_interval() -> None:
    rng = np.random.default_rng(3)
    scores = np.where(rng.random(60) < 0.3, 0.4, 1.0)
    guesses = np.clip(scores + rng.normal(0, 0.05, 60), 0, 1)
    judged = PpiSums.of(
        scores.tolist(),
        guesses.tolist(),
        [0.1] * 60,
        requests=600,
        h=float(10 * (1 - guesses).sum()),
    )
    helped, plain = ppi.estimate(judged), weighted.estimate(judged.judged)
    assert helped.method == "ppi_shrunk_wilson"
    assert helped.low is not None
    assert helped.high is not None
    assert plain.low is not None
    assert plain.high is not None
    assert helped.high - helped.low < 0.6 * (plain.high - plain.low)


@pytest.mark.parametrize(
    "broken",
    [
        PpiSums.of(Y, G, P, requests=0, h=0.0),
        PpiSums.of(Y, G, P, requests=230, h=231.0),
        PpiSums.of(Y, G, P, requests=230, h=float("nan")),
    ],
)
def test_totals_that_cannot_be_true_fall_back_to_the_plain_mean(broken: PpiSums) -> None:
    assert ppi.estimate(broken) == weighted.estimate(broken.judged)
    with pytest.raises(ValueError, match="do not fit"):
        ppi.difference(broken)


def test_an_estimate_beyond_one_is_shown_as_one() -> None:
    judged = PpiSums.of([1.0] * 40, [0.5] * 40, [0.5] * 40, requests=80, h=10.0)
    assert ppi.difference(judged).mean > 1.0
    found = ppi.estimate(judged)
    assert (found.mean, found.high) == (1.0, 1.0)


@pytest.mark.parametrize("h", [16.5, 15.7, 15.61, 15.0])
def test_the_interval_does_not_explode_where_the_mean_nears_one(h: float) -> None:
    # The correction lifts the mean to .998, .9998 and .99998, and beyond 1.
    scores, predictions = [1.0] * 57 + [0.8] * 3, [0.965] * 57 + [0.945] * 3
    found = ppi.estimate(PpiSums.of(scores, predictions, [0.1] * 60, requests=600, h=h))
    assert found.mean is not None
    assert found.mean > 0.998
    assert found.low is not None
    assert found.low >= 60 / (60 + 1.96**2) - 0.005


def test_failed_judgements_bound_this_estimate_too() -> None:
    judged = PpiSums.of([1.0] * 9 + [None], [0.9] * 10, [0.5] * 10, requests=20, h=2.0)
    assert ppi.estimate(judged).bounds_low == pytest.approx(0.9)


def test_rare_heavy_requests_keep_the_lower_end_down() -> None:
    # 100 complaints judged each, 40 of 1600 others, all perfect: the others hold the weight.
    judged = PpiSums.of(
        [1.0] * 140, [0.97] * 140, [1.0] * 100 + [0.025] * 40, requests=1700, h=51.0
    )
    found = ppi.estimate(judged)
    assert found.low is not None
    assert found.low < 1 - 3.68 / 2 / 40


def test_an_empty_window_is_no_data() -> None:
    assert ppi.estimate(PpiSums()).display == "no_data"


@pytest.mark.parametrize("lam", [-0.1, 1.1, float("nan")])
def test_lambda_is_a_share(lam: float) -> None:
    with pytest.raises(ValueError, match="lam is"):
        ppi.estimate(sums(), lam)


def test_a_prediction_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="predictions holds"):
        PpiSums.of([1.0], [1.2], [0.5], requests=1, h=0.0)


# --- Design -------------------------------------------------------------------------------------


def test_active_probabilities_fill_the_budget_under_the_cap() -> None:
    p = ppi.active_probabilities([0.05] * 6 + [0.1, 0.2, 0.4, 0.8], budget=3, tau=0.2)
    assert p == pytest.approx([0.133] * 6 + [0.206, 0.352, 0.644, 1.0])


def test_a_lower_cap_spreads_the_rest() -> None:
    p = ppi.active_probabilities([0.1, 0.1, 1.0, 1.0], budget=1.6, tau=0.5, cap=0.5)
    assert p == pytest.approx([0.3, 0.3, 0.5, 0.5])


def test_without_any_known_error_the_budget_is_spread_evenly() -> None:
    assert ppi.active_probabilities([0.0] * 4, budget=2) == pytest.approx([0.5] * 4)


def test_what_the_uncertain_requests_cannot_take_goes_to_the_certain_ones() -> None:
    p = ppi.active_probabilities([0.0, 0.0, 1.0], budget=2, tau=0.5)
    assert p == pytest.approx([0.5, 0.5, 1.0])


def test_a_budget_for_everything_judges_everything() -> None:
    assert ppi.active_probabilities([0.1, 0.2], budget=5) == [1.0, 1.0]


def test_a_live_request_is_judged_by_its_relative_uncertainty() -> None:
    assert ppi.streaming_probability(0.1, 0.2, 0.2) == pytest.approx(0.1)
    assert ppi.streaming_probability(0.1, 0.6, 0.2) == pytest.approx(0.2)
    assert ppi.streaming_probability(0.1, 0.0, 0.2, tau=0.1) == pytest.approx(0.02)
    assert ppi.streaming_probability(0.5, 9.0, 0.2) == 1.0
    assert ppi.streaming_probability(0.1, 0.0, 0.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"residual_sds": [-1.0], "budget": 1}, "residual_sds"),
        ({"residual_sds": [1.0], "budget": 0}, "budget"),
        ({"residual_sds": [1.0], "budget": 1, "tau": 0}, "tau"),
        ({"residual_sds": [1.0], "budget": 1, "cap": 2}, "cap"),
    ],
)
def test_a_bad_design_is_named(arguments: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ppi.active_probabilities(**arguments)  # type: ignore[arg-type]


# --- Calibration --------------------------------------------------------------------------------


def past(n: int = 4000) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(5)
    complained = rng.random(n) < 0.2
    scores = np.where(rng.random(n) < np.where(complained, 0.6, 0.1), 0.3, 1.0)
    cheap = np.clip(0.2 + 0.3 * scores + rng.normal(0, 0.1, n), 0, 1)
    return scores, cheap, ["down" if c else "none" for c in complained]


def test_a_calibrated_score_is_right_on_average_in_every_stratum() -> None:
    scores, cheap, strata = past()
    fitted = score_calibration.fit(scores.tolist(), cheap.tolist(), strata, [0.5] * len(scores))
    assert fitted is not None
    for name in ("down", "none"):
        at = np.array([s == name for s in strata])
        assert fitted.predict(cheap[at], name).mean() == pytest.approx(scores[at].mean(), abs=0.02)


def test_calibration_says_where_it_misses_most() -> None:
    scores, cheap, strata = past()
    fitted = score_calibration.fit(scores.tolist(), cheap.tolist(), strata, [0.5] * len(scores))
    assert fitted is not None
    at = np.array([s == "down" for s in strata])
    unsure = fitted.residual_sd(fitted.predict(cheap[at], "down")).mean()
    sure = fitted.residual_sd(fitted.predict(cheap[~at], "none")).mean()
    assert unsure > 1.2 * sure


def test_weights_undo_the_sampling_of_the_past() -> None:
    scores, cheap, strata = past()
    p = np.where(scores < 1, 1.0, 0.1)
    drawn = np.random.default_rng(6).random(len(scores)) < p
    fitted = score_calibration.fit(
        scores[drawn].tolist(),
        cheap[drawn].tolist(),
        [s for s, d in zip(strata, drawn, strict=True) if d],
        p[drawn].tolist(),
    )
    assert fitted is not None
    at = np.array([s == "none" for s in strata])
    assert fitted.predict(cheap[at], "none").mean() == pytest.approx(scores[at].mean(), abs=0.03)


def test_a_missing_cheap_score_and_an_unknown_stratum_get_the_mean() -> None:
    scores, cheap, strata = past()
    fitted = score_calibration.fit(scores.tolist(), cheap.tolist(), strata, [0.5] * len(scores))
    assert fitted is not None
    assert fitted.predict([np.nan], "new") == pytest.approx([scores.mean()], abs=1e-9)


def test_too_little_or_constant_history_teaches_nothing() -> None:
    assert score_calibration.fit([1.0] * 10, [0.5] * 10, ["a"] * 10, [0.5] * 10) is None
    assert score_calibration.fit([1.0] * 60, [0.5] * 60, ["a"] * 60, [0.5] * 60) is None
    assert score_calibration.fit([1.0] * 60, [None] * 60, ["a"] * 60, [0.5] * 60) is None


def test_a_past_probability_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="probabilities"):
        score_calibration.fit([1.0] * 60, [0.5] * 60, ["a"] * 60, [0.0] * 60)


def test_an_unseen_heavy_loss_keeps_its_place_in_the_bound() -> None:
    # No loss seen, n equal weights: half an unseen loss is exponential, -ln(.025)/2 of one.
    assert ppi.unseen_loss_bound(0.0, 0.0, 1 / 100) == pytest.approx(3.6888794541 / 200, abs=1e-9)
    assert ppi.unseen_loss_bound(-0.01, 0.0, 1.0) == 1.0
