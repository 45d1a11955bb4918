"""Labels of people as they come in: what is taken, and what a refusal says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from collector.errors import MalformedPayload
from collector.labels import Label, parse_labels

AT = datetime(2026, 11, 4, 12, 0, tzinfo=UTC)
GOOD: dict[str, Any] = {
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "claim": "Pro costs 9 dollars.",
    "verdict": "NOT_FOUND",
    "labeller": "ada",
}


def test_a_label_without_a_time_gets_the_given_one() -> None:
    (label,) = parse_labels([GOOD], AT)
    assert label == Label(**GOOD, labelled_at=AT)


def test_what_a_sample_holds_beside_the_label_is_left_alone() -> None:
    (label,) = parse_labels([{**GOOD, "question": "?", "documents": ["x"], "note": None}], AT)
    assert label.note is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "maybe"}, "verdict must be one of SUPPORTED, CONTRADICTED, NOT_FOUND"),
        ({"claim": "", "verdict": "SUPPORTED"}, "verdict must be one of correct, incomplete"),
        ({"labeller": "  "}, "labeller must not be empty"),
        ({"labeller": None}, "labeller"),
        ({"trace_id": 7}, "trace_id"),
        ({"probability": 0}, "probability must be at least"),
        ({"probability": 1.5}, "at most 1"),
        ({"labelled_at": "2026-11-04T12:00:00"}, "needs a time zone"),
        ({"note": "x" * 4001}, "note is longer than 4000"),
    ],
)
def test_a_refusal_names_the_label_and_the_field(change: dict[str, Any], said: str) -> None:
    with pytest.raises(MalformedPayload, match="label 2") as refused:
        parse_labels([GOOD, {**GOOD, **change}], AT)
    assert said in str(refused.value)


def test_a_refusal_shows_nothing_of_what_was_written() -> None:
    with pytest.raises(MalformedPayload) as refused:
        parse_labels([{**GOOD, "verdict": "secret words"}], AT)
    assert "secret" not in str(refused.value)


def test_an_item_that_is_no_object_is_named() -> None:
    with pytest.raises(MalformedPayload, match="label 1: must be an object"):
        parse_labels(["x"], AT)


def test_an_empty_verdict_takes_a_label_back() -> None:
    (label,) = parse_labels([{**GOOD, "verdict": ""}], AT)
    assert label.verdict == ""
