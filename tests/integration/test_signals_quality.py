"""Rephrases and push-back are found as well as the documentation says, on halves not fitted on.

The bounds lie a little below what `python -m tests.signals_report` shows.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scorers.implicit import pushback, rephrase
from scorers.implicit.logistic import Logistic
from tests.judge_report import auroc
from tests.signals_report import Data, Fit, Sample, fit_pushback, fit_rephrase

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def data() -> Data:
    return Data.load()


def shares(sample: Sample, fit: Fit) -> tuple[float, float]:
    recall, false_positives = sample.rates(sample.scores(fit.model), fit.threshold)
    assert recall is not None
    assert false_positives is not None
    return recall, false_positives


@pytest.mark.parametrize("half", [0, 1])
def test_rephrases_are_told_from_follow_ups(data: Data, half: int) -> None:
    fit = fit_rephrase(data.followup.in_half(1 - half), data.dialogue.in_half(1 - half))
    recall, false_positives = shares(data.followup.in_half(half), fit)
    assert recall >= 0.8
    assert false_positives <= 0.08
    follow_ups = data.dialogue.taken(~data.dialogue.positive).in_half(half)
    assert (follow_ups.scores(fit.model) >= fit.threshold).mean() <= 0.09


@pytest.mark.parametrize("half", [0, 1])
def test_push_back_is_told_from_follow_ups(data: Data, half: int) -> None:
    fit = fit_pushback(data.dialogue_pushback.in_half(1 - half))
    sample = data.dialogue_pushback.in_half(half)
    recall, false_positives = shares(sample, fit)
    assert (recall + 1 - false_positives) / 2 >= 0.8
    assert auroc(sample.scores(fit.model), sample.positive) >= 0.86


def test_chatter_about_films_is_hardly_ever_taken_for_a_rephrase(data: Data) -> None:
    fit = Fit(rephrase.MODEL, rephrase.THRESHOLD)
    assert shares(data.iard, fit)[1] <= 0.03


@pytest.mark.parametrize(
    ("model", "threshold", "fitted"),
    [
        (
            rephrase.MODEL,
            rephrase.THRESHOLD,
            lambda data: fit_rephrase(data.followup.in_half(0), data.dialogue.in_half(0)),
        ),
        (
            pushback.MODEL,
            pushback.THRESHOLD,
            lambda data: fit_pushback(data.dialogue_pushback.in_half(0)),
        ),
    ],
    ids=["rephrase", "push-back"],
)
def test_the_weights_in_the_product_are_those_of_the_first_half(
    data: Data, model: Logistic, threshold: float, fitted: Callable[[Data], Fit]
) -> None:
    fit = fitted(data)
    assert fit.model.weights == pytest.approx(model.weights, abs=0.3)
    assert fit.model.intercept == pytest.approx(model.intercept, abs=0.3)
    assert fit.threshold == pytest.approx(threshold, abs=0.06)
