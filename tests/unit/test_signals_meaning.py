"""What a named score of another product says, and whether a user says it at all."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config import FeedbackScale
from collector.signals.meaning import is_feedback_name, meaning_of, rating, scale_of

NONE: dict[str, FeedbackScale] = {}


@pytest.mark.parametrize(
    "name",
    [
        "user-feedback",
        "user_feedback",
        "userFeedback",
        "user feedback",
        "User Feedback",
        "thumbs",
        "thumbs_up",
        "user_score",
        "rating",
        "star-rating",
        "stars",
        "csat",
        "NPS",
        "downvote",
        "like",
        "helpful",
        "customer-satisfaction",
        "app.feedback.thumb",
    ],
)
def test_names_that_speak_of_users_are_feedback(name: str) -> None:
    assert is_feedback_name(name, NONE)


@pytest.mark.parametrize(
    "name",
    [
        "faithfulness",
        "Relevance",
        "hallucination",
        "toxicity",
        "answer_correctness",
        "helpfulness",
        "likelihood",
        "user_frustration",
        "starting_point",
        "exact-match",
        "",
    ],
)
def test_names_of_evaluators_are_not(name: str) -> None:
    assert not is_feedback_name(name, NONE)


def test_a_name_can_be_added_by_configuration() -> None:
    assert is_feedback_name("quality", {"quality": "1..5"})


@pytest.mark.parametrize(
    ("name", "number", "label", "kind", "sentiment"),
    [
        ("user-feedback", 1, None, "thumbs_up", 1),
        ("user-feedback", 0, None, "thumbs_down", -1),
        ("user-feedback", -1, None, "thumbs_down", -1),
        ("user-feedback", 0.0, "thumbs-down", "thumbs_down", -1),
        ("user-feedback", None, "thumbs-up", "thumbs_up", 1),
        ("user-feedback", None, "👎", "thumbs_down", -1),
        ("feedback", None, "not helpful", "thumbs_down", -1),
        ("feedback", None, "THUMBS_DOWN", "thumbs_down", -1),
        ("feedback", None, "like", "thumbs_up", 1),
        ("feedback", None, "dislike", "thumbs_down", -1),
        ("thumbs_down", 1, None, "thumbs_down", -1),
        ("downvote", 1, None, "thumbs_down", -1),
        ("dislike", 1, None, "thumbs_down", -1),
        ("user-feedback", 0.8, None, "rating", 1),
        ("user-feedback", 0.2, None, "rating", -1),
        ("user-feedback", 4, None, "rating", 1),
        ("stars", 1, None, "rating", -1),
        ("star_rating", 5, None, "rating", 1),
        ("rating", 3, None, "rating", 0),
        ("rating", 9, None, "rating", 1),
        ("feedback", None, "The page is out of date", "comment", 0),
        ("feedback", None, None, "comment", 0),
    ],
)
def test_kind_and_sentiment_come_from_name_score_and_label(
    name: str, number: float | None, label: str | None, kind: str, sentiment: int
) -> None:
    meaning = meaning_of(name, number, label, NONE)
    assert (meaning.kind, meaning.sentiment) == (kind, sentiment)


def test_one_star_is_the_worst_and_not_a_thumb_up() -> None:
    assert meaning_of("stars", 1, None, NONE) == ("rating", -1, "1..5")
    assert meaning_of("thumbs", 1, None, NONE) == ("thumbs_up", 1, None)


@pytest.mark.parametrize(
    ("named", "number", "expected"),
    [
        ("1..5", 1, ("rating", -1, "1..5")),
        ("0..1", 1, ("rating", 1, "0..1")),
        ("0..10", 6, ("rating", 0, "0..10")),
        ("0..10", 0, ("rating", -1, "0..10")),
        ("thumbs", 0, ("thumbs_down", -1, None)),
        ("comment", 1, ("comment", 0, None)),
    ],
)
def test_the_configuration_says_how_a_name_is_read(
    named: FeedbackScale, number: float, expected: tuple[Any, ...]
) -> None:
    assert meaning_of("quality", number, None, {"quality": named}) == expected


def test_a_scale_that_comes_with_the_score_is_used() -> None:
    assert meaning_of("user_score", 1, None, NONE, "1..5") == ("rating", -1, "1..5")


@pytest.mark.parametrize(("value", "scale"), [(7, "1..5"), (-0.1, "0..1"), (85, None)])
def test_a_value_off_its_scale_is_named(value: float, scale: str | None) -> None:
    with pytest.raises(ValueError, match=r"value: lies outside .*; give the scale as"):
        rating(value, scale)


@pytest.mark.parametrize(
    ("low", "high", "scale"),
    [(0, 1, "0..1"), (1, 5, "1..5"), (0, 10, "0..10"), (None, None, None), (0, 7, None)],
)
def test_bounds_are_a_scale_where_there_is_one(
    low: float | None, high: float | None, scale: str | None
) -> None:
    assert scale_of(low, high) == scale
