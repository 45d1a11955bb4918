"""Does a user push back: not understand, correct or disagree with the last answer?

Cue words decide, helped by how much the question speaks of what only the answer said.
"""

from __future__ import annotations

from typing import NamedTuple

from scorers.implicit import cues, words
from scorers.implicit.logistic import Logistic
from scorers.lexical_text import STOP_WORDS, stems

_ANSWER_CHARACTERS = 8_000

FEATURES = (*cues.NAMES, "speaks of the answer")
"""What the model sees, in order: a 0 or 1 for each kind of cue, and a share in [0, 1]."""

MODEL = Logistic(weights=(2.3, 2.4, 2.3, 2.2, 0.9, 1.4, 1.3, 1.5), intercept=-1.2)
"""Fitted by `python -m tests.signals_report --fit`; the confidence is at even odds."""

THRESHOLD = 0.58
"""Confidence from which a question counts as push-back."""


class PushBack(NamedTuple):
    """How sure it is that a question pushes back, in [0, 1], and why."""

    confidence: float
    reason: str


def features(question: str, answer: str, later: str) -> tuple[float, ...]:
    """Return the features of `FEATURES`."""
    return _features(question, answer, later, _cues(answer, later))


def push_back(question: str, answer: str, later: str) -> PushBack:
    """Say whether `later` pushes back on an answer.

    Args:
        question: what was asked.
        answer: what was answered; "" where nothing was.
        later: what the user said next.
    """
    found = _cues(answer, later)
    confidence = MODEL(_features(question, answer, later, found))
    said = ", ".join(f'{name} ("{cue}")' for name, cue in found.items())
    return PushBack(confidence, f"the user {said or FEATURES[-1]}")


def _cues(answer: str, later: str) -> dict[str, str]:
    asked_back = answer.rstrip().endswith(("?", "？"))
    return cues.found(words.cut(later), words.language_of(later), asked_back=asked_back)


def _features(question: str, answer: str, later: str, found: dict[str, str]) -> tuple[float, ...]:
    return (*(float(name in found) for name in cues.NAMES), _of_answer(question, answer, later))


def _of_answer(question: str, answer: str, later: str) -> float:
    """Return the share of the words of `later` that the answer has and the question has not."""
    code = words.language_of(later)
    said = {word for word in stems(words.cut(later), code) if word not in STOP_WORDS}
    before = set(stems(words.cut(question), code))
    answered = set(stems(answer[:_ANSWER_CHARACTERS], code))
    return len((said - before) & answered) / len(said) if said else 0.0
