"""Alarms that may look at every record."""

from __future__ import annotations

import numpy as np
import pytest

from scorers.stats import sequential
from scorers.stats.sequential import ShiryaevRoberts
from scorers.stats.weighted import Sums

LOSSES = [0, 0, 1, 0.5, 0, 1, 1, 0, 0.25, 1]


def alarms(detector: ShiryaevRoberts, losses: list[float]) -> list[int]:
    raised = []
    for at, loss in enumerate(losses):
        detector = detector.observe(loss)
        if detector.alarm:
            raised.append(at)
    return raised


def test_the_detector_follows_its_recursion() -> None:
    detector = ShiryaevRoberts(baseline=0.09, bet=1.5, threshold=1e6)
    for loss in LOSSES:
        detector = detector.observe(loss)
    assert detector.value == pytest.approx(182.6132295)


def test_it_starts_anew_after_an_alarm() -> None:
    detector = ShiryaevRoberts(baseline=0.09, bet=1.5, threshold=6.0)
    assert alarms(detector, [0, 0, 1, 0]) == [2]


def partial_losses(rng: np.random.Generator, mean: float, n: int) -> list[float]:
    """Answers of 3 to 10 claims: a bad one supports a random part of them, .589 lost on average."""
    claims = rng.integers(3, 11, n)
    lost = 1 - np.floor(rng.random(n) * claims) / claims
    return [float(loss) for loss in np.where(rng.random(n) < mean / 0.589, lost, 0.0)]


def test_healthy_quality_stays_silent_for_a_month() -> None:
    losses = partial_losses(np.random.default_rng(1), 0.08, 14_400)
    assert alarms(ShiryaevRoberts(baseline=0.09, threshold=14_400), losses) == []


def test_a_drop_of_seven_points_is_seen_after_the_published_number_of_records() -> None:
    rng = np.random.default_rng(2)
    detector = ShiryaevRoberts(baseline=0.09, threshold=14_400)
    delays = [alarms(detector, partial_losses(rng, 0.15, 1500))[0] for _ in range(60)]
    assert np.median(delays) == pytest.approx(163, abs=40)


def test_weights_count_and_the_bet_is_bounded_by_the_largest() -> None:
    detector = ShiryaevRoberts(baseline=0.1, bet=0.2, threshold=100, max_weight=10)
    assert detector.observe(1.0, weight=10).value == pytest.approx(1 + 0.2 * 10 * 0.9)
    with pytest.raises(ValueError, match="bet"):
        ShiryaevRoberts(baseline=0.1, bet=1.5, threshold=100, max_weight=10)
    with pytest.raises(ValueError, match="weight"):
        detector.observe(0.0, weight=11)


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"baseline": 0.0}, "baseline"), ({"threshold": 1.0}, "threshold"), ({"bet": 0.0}, "bet")],
)
def test_settings_that_break_the_promise_are_refused(settings: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ShiryaevRoberts(**{"baseline": 0.1, "threshold": 100.0, **settings})


@pytest.mark.parametrize("loss", [-0.1, 1.1, float("nan")])
def test_an_impossible_loss_is_refused(loss: float) -> None:
    with pytest.raises(ValueError, match="loss"):
        ShiryaevRoberts(baseline=0.1, threshold=100).observe(loss)


def test_the_threshold_is_the_budget_of_false_alarms() -> None:
    assert sequential.false_alarm_budget(20 * 24) == 14_400
    assert sequential.false_alarm_budget(20 * 24, segments=3) == 43_200
    with pytest.raises(ValueError, match="judged_per_day"):
        sequential.false_alarm_budget(0)


def test_the_watched_mean_is_a_point_above_the_objective_where_usual_quality_allows() -> None:
    assert sequential.alert_mean(0.90, 0.92) == pytest.approx(0.91)
    assert sequential.alert_mean(0.90, 0.915) == 0.90


def test_cusum_never_falls_below_zero() -> None:
    expected = [0, 0, 0.885, 1.27, 1.155, 2.04, 2.925, 2.81, 2.945, 3.83]
    assert sequential.cusum(LOSSES, 0.08, 0.035) == pytest.approx(expected)


def test_a_burn_rate_cannot_reach_what_some_alerts_ask_for() -> None:
    burns = [sequential.burn_rate(mean, 0.9) for mean in (0.92, 0.88, 0.85, 0.7)]
    assert burns == pytest.approx([0.8, 1.2, 1.5, 3.0])
    assert sequential.burn_rate(0.0, 0.9) == pytest.approx(10.0)
    with pytest.raises(ValueError, match="slo"):
        sequential.burn_rate(0.9, 1.0)


def window(mean_of_bad: float, n: int, failed: int = 0) -> Sums:
    half = n // 2
    scores = [1.0] * half + [mean_of_bad] * (n - half) + [None] * failed
    return Sums.of(scores, [0.5] * len(scores))


def test_quality_is_below_only_when_both_windows_say_so() -> None:
    bad, good = window(0.2, 200), window(1.0, 40)
    assert sequential.windows_below(bad, window(0.2, 40), 0.9) == "below"
    assert sequential.windows_below(bad, good, 0.9) == "not_below"
    assert sequential.windows_below(window(0.75, 40), window(0.2, 40), 0.9) == "not_below"


def test_silence_and_failures_are_blindness_not_health() -> None:
    good = window(1.0, 200)
    assert sequential.windows_below(window(1.0, 18), good, 0.9) == "blind"
    assert sequential.windows_below(good, window(1.0, 4), 0.9) == "blind"
    assert sequential.windows_below(window(1.0, 180, failed=20), good, 0.9) == "blind"
    assert sequential.windows_below(Sums(), Sums(), 0.9) == "blind"
