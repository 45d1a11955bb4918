"""What a signal says: yes, no or neither, on which scale, and whether a user says it at all.

Products write feedback as named scores: `user-feedback: 1`, `thumbs: 0`, `stars: 4`,
`quality: "bad"`, and the same call carries the scores of automatic evaluators. The rules here
tell them apart and are the same for all products.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from collector.config import FeedbackScale
from collector.model import SignalKind

Scale = Literal["-1..1", "0..1", "1..5", "1..10", "0..10"]
SCALES: tuple[str, ...] = get_args(Scale)

_BOUNDS: dict[str, tuple[float, float]] = {
    scale: (float(scale.partition("..")[0]), float(scale.partition("..")[2])) for scale in SCALES
}
_NEUTRAL = (0.4, 0.6)
"""The middle fifth of a scale says neither yes nor no: 3 of 1..5, 5 and 6 of 1..10."""

SENTIMENT: dict[SignalKind, int] = {
    "thumbs_up": 1,
    "thumbs_down": -1,
    "copy": 1,
    "citation_click": 1,
    "rephrase": -1,
    "regenerate": -1,
    "abandon": -1,
    "push_back": -1,
    "repeated_clicks": 0,
    "comment": 0,
}
"""What a kind of signal says of the answer: good 1, bad -1, or neither."""

_FEEDBACK = re.compile(
    r"\b(feedback|thumbs?|rating|stars?|csat|nps|(up|down)?votes?|(dis)?liked?|(dis)?likes"
    r"|satisfaction|helpful|user scores?)\b"
)
_AGAINST = re.compile(r"\b(thumbs? down|dislikes?|disliked|downvotes?)\b")
_FIVE_STARS = re.compile(r"\b(rating|stars?|csat)\b")
_UP = frozenset(
    {"thumbs up", "thumb up", "up", "like", "liked", "positive", "good", "helpful", "yes", "upvote"}
    | {"👍", "satisfied", "great"}
)
_DOWN = frozenset(
    {"thumbs down", "thumb down", "down", "dislike", "disliked", "negative", "bad", "unhelpful"}
    | {"not helpful", "no", "downvote", "👎", "dissatisfied", "unsatisfied", "poor"}
)


class Meaning(NamedTuple):
    """What a named score says. `sentiment` is -1, 0 or 1; `scale` is None but for ratings."""

    kind: SignalKind
    sentiment: int
    scale: str | None = None


def is_feedback_name(name: str, named: Mapping[str, FeedbackScale]) -> bool:
    """Tell whether a score of this name comes from a user, where its sender does not say so.

    Args:
        name: as the client sends it.
        named: names that the configuration adds.
    """
    return name in named or _FEEDBACK.search(_words(name)) is not None


def meaning_of(
    name: str,
    number: float | None,
    label: str | None,
    named: Mapping[str, FeedbackScale],
    scale: str | None = None,
) -> Meaning:
    """Return what a score of a user says.

    Args:
        name: of the score.
        number: its value, None where it has none.
        label: its value in words, if any.
        named: how to read names that the configuration knows.
        scale: the scale its sender gives with it.

    Raises:
        ValueError: the value lies outside its scale.
    """
    known = named.get(name)
    if known == "comment" or (number is None and _words(label or "") not in _UP | _DOWN):
        return Meaning("comment", 0)
    if number is None:
        return _thumb(up=_words(label or "") in _UP)
    if _AGAINST.search(_words(name)) and number > 0:
        return _thumb(up=False)
    if known == "thumbs" or (known is scale is None and _is_thumb(name, number)):
        return _thumb(up=number > 0)
    scale = scale or known or _scale_by_name(name, number)
    sentiment, scale = rating(number, scale)
    return Meaning("rating", sentiment, scale)


def sentiment_of(kind: SignalKind, number: float | None, scale: str | None) -> int:
    """Return -1, 0 or 1. A value of 0 is a real answer: a thumb that is not up is down.

    Raises:
        ValueError: a rating lies outside its scale.
    """
    if kind == "rating":
        return rating(0.0 if number is None else number, scale)[0]
    if kind == "thumbs_up" and number is not None:
        return 1 if number > 0 else -1
    return SENTIMENT[kind]


def rating(value: float, scale: str | None) -> tuple[int, str]:
    """Place a rating on its scale; return its sentiment and the scale.

    Without one, up to 1 is read as 0..1 (0 is negative), up to 5 as 1..5, up to 10 as 1..10.

    Raises:
        ValueError: the value lies outside the scale.
    """
    if scale is None:
        if value < 0:
            scale = "-1..1"
        else:
            scale = "0..1" if value <= 1 else "1..5" if value <= 5 else "1..10"
    low, high = _BOUNDS[scale]
    if not low <= value <= high:
        raise ValueError(f"value: lies outside {scale}; give the scale as {', '.join(SCALES)}")
    place = (value - low) / (high - low)
    return (-1 if place < _NEUTRAL[0] else 1 if place > _NEUTRAL[1] else 0), scale


def scale_of(low: float | None, high: float | None) -> str | None:
    """Return the scale with these bounds, None where there is none."""
    return next((scale for scale, bounds in _BOUNDS.items() if bounds == (low, high)), None)


def _thumb(*, up: bool) -> Meaning:
    return Meaning("thumbs_up", 1) if up else Meaning("thumbs_down", -1)


def _is_thumb(name: str, number: float) -> bool:
    """A whole number from -1 to 1 is a thumb, unless the name speaks of stars: then 1 is one."""
    return number in (-1, 0, 1) and not (number == 1 and _FIVE_STARS.search(_words(name)))


def _scale_by_name(name: str, number: float) -> str | None:
    stars = _FIVE_STARS.search(_words(name)) and number == int(number) and 1 <= number <= 5
    return "1..5" if stars else None


def _words(text: str) -> str:
    """Return a name in words: `userFeedback`, `user_feedback` and `user-feedback` are the same."""
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", text[:200])
    return re.sub(r"[\s_\-.:/]+", " ", apart).strip().lower()
