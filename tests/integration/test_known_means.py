"""The published intervals hold the truth, also where bad answers were sought out."""

from __future__ import annotations

from pathlib import Path

from tests.known_means import SEGMENTS, observe, plant


def test_the_intervals_hold_the_true_means_of_a_hundred_segments(tmp_path: Path) -> None:
    planted = plant(requests=40)
    outcome = observe(planted, tmp_path)
    assert len(outcome.report["segments"]) == SEGMENTS
    assert outcome.report["total"]["requests"] == len(planted)
    assert outcome.report["accounting_ok"]
    assert outcome.covered >= 90
    assert abs(outcome.bias) < 0.01
    # Thumbs down are judged four times as often: the mean of what was judged is far too low.
    assert outcome.naive_bias < -0.05
