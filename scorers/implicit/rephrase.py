"""Does a question say the last one again in other words, or does it go on from it?

A later question that keeps the words of the earlier one restates it; one that begins with "and",
points back with a new "it", or asks the same of another number or name is a follow-up. Words are
compared, not meaning: a question said again with none of its words is not found.
"""

from __future__ import annotations

from typing import NamedTuple

from scorers.implicit import words
from scorers.implicit.logistic import Logistic


class Features(NamedTuple):
    """What the model sees of two questions, each in [0, 1]."""

    kept: float
    opens_as_follow_up: float
    points_back: float


MODEL = Logistic(weights=(5.7, -0.9, -0.7), intercept=-2.8)
"""Fitted by `python -m tests.signals_report --fit`; the confidence is at even odds."""

THRESHOLD = 0.73
"""Confidence from which a question counts as a rephrase."""


class Restatement(NamedTuple):
    """How sure it is that a question restates the last one, in [0, 1], and why."""

    confidence: float
    reason: str


def features(earlier: str, later: str) -> Features:
    """Return what the model sees."""
    code = words.language_of(earlier, later)
    return _features(earlier, later, code, words.kept(earlier, later, code))


def restatement(earlier: str, later: str) -> Restatement:
    """Compare two questions that follow each other in a conversation.

    Args:
        earlier: the earlier question.
        later: the next question of the same user.
    """
    code = words.language_of(earlier, later)
    kept = words.kept(earlier, later, code)
    confidence = MODEL(_features(earlier, later, code, kept))
    return Restatement(confidence, f"{kept.found} of {kept.words} words of the question come again")


def _features(earlier: str, later: str, code: str, kept: words.Kept) -> Features:
    another = words.asks_of_another(earlier, later, code)
    return Features(
        kept=0.0 if another else kept.share,
        opens_as_follow_up=float(words.opens_as_follow_up(later, code)),
        points_back=float(words.points_back(earlier, later, code)),
    )
