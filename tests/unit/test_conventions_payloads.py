"""Text that may be JSON, and flattened lists."""

from __future__ import annotations

from typing import Any

import pytest

from collector.conventions.flat import indexed
from collector.conventions.numbers import first_integer, integer, real, text
from collector.conventions.payloads import Decoder


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ("plain words", "plain words"),
        ("123", "123"),
        ("null", "null"),
        ("true", "true"),
        ('"quoted"', "quoted"),
        ('"\\"twice\\""', "twice"),
        ('{"a": 1}', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": NaN}', None),
        ("{'a': 'it''s', 'b': None}", {"a": "its", "b": None}),
        ("[1] Shipping takes 3 days.", "[1] Shipping takes 3 days."),
        ("{curly} text", "{curly} text"),
        ({"a": 1}, {"a": 1}),
        (lambda: '{"a": 1}', '{"a": 1}'),
    ],
)
def test_only_objects_arrays_and_quoted_strings_are_json(payload: Any, value: Any) -> None:
    decoder = Decoder()
    decoded = decoder.decode(payload)
    if value is not None and not callable(payload):
        assert decoded == value
    assert decoder.truncated is False


@pytest.mark.parametrize(
    ("cut", "saved"),
    [
        ('{"question": "What does Pro co', {}),
        ('{"question": "What?", "context": "Lorem ip', {"question": "What?"}),
        ('[{"id": 1, "text": "a"}, {"id": 2, "te', [{"id": 1, "text": "a"}, {"id": 2}]),
        ('["a", "b', ["a"]),
        ('{"a": {"b": [1, 2', {"a": {"b": [1]}}),
    ],
)
def test_json_that_was_cut_off_gives_its_whole_members_and_is_noted(cut: str, saved: Any) -> None:
    decoder = Decoder()
    assert decoder.decode(cut) == saved
    assert decoder.truncated is True


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ('["\\ud800 costs 12"]', ["\ufffd costs 12"]),
        ('{"a\\udc00": "\\ud83d\\ude00"}', {"a\ufffd": "\U0001f600"}),
        ("{'a': ('b\\ud800',)}", {"a": ["b\ufffd"]}),
        ('{"a": "\\ud800", "b', {"a": "\ufffd"}),
    ],
)
def test_half_a_character_in_json_becomes_the_sign_for_one(payload: str, value: Any) -> None:
    assert Decoder().decode(payload) == value


def test_hopeless_nesting_stays_text() -> None:
    assert Decoder().decode("[" * 9000) in ("[" * 9000, [])


def test_flattened_lists_keep_their_indices() -> None:
    attributes = {
        "docs.17.id": "x",
        "docs.2.id": "y",
        "docs.2.meta.page": 3,
        "docs.99999999.id": "hostile",
        "docs.-1.id": "hostile",
        "docs.__proto__.id": "hostile",
        "docs.x": 1,
        "other.1.id": 1,
    }
    assert indexed(attributes, "docs") == {2: {"id": "y", "meta.page": 3}, 17: {"id": "x"}}
    assert list(indexed(attributes, "docs")) == [2, 17]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0", 0), (0, 0), ("220", 220), (220.0, 220), (-1, None), ("x", None), (True, None)],
)
def test_counts_are_read_from_numbers_and_digits(value: Any, expected: int | None) -> None:
    assert integer(value) == expected


def test_a_count_of_zero_is_a_count() -> None:
    assert first_integer({"new": 0, "old": 5}, ("new", "old")) == 0


def test_infinity_is_no_number_and_blank_no_text() -> None:
    assert real("inf") is None
    assert text("  ") is None
    assert text(7) == "7"
