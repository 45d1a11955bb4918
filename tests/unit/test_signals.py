from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from collector.errors import MalformedPayload
from collector.model import Signal, SignalKind
from collector.signals import MAX_SIGNALS, parse_signals, target_of

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def one(**fields: Any) -> Signal:
    parsed = parse_signals(json.dumps(fields).encode(), NOW)
    assert parsed.rejected == []
    (signal,) = parsed.signals
    return signal


def refusal(body: Any) -> str:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(MalformedPayload) as refused:
        parse_signals(raw, NOW)
    return str(refused.value)


def test_a_single_object_is_read() -> None:
    signal = one(trace_id=TRACE, kind="thumbs_up", user_id="u1", comment="Nice", signal_id="s1")

    assert signal.signal_id == "s1"
    assert signal.trace_id == TRACE
    assert signal.kind == "thumbs_up"
    assert signal.sentiment == 1
    assert signal.user_id == "u1"
    assert signal.comment == "Nice"
    assert signal.revoked is False
    assert signal.occurred_at == signal.received_at == NOW


def test_an_array_keeps_its_order() -> None:
    body = [{"message_id": str(n), "kind": "copy"} for n in range(3)]
    parsed = parse_signals(json.dumps(body).encode(), NOW)
    assert [signal.message_id for signal in parsed.signals] == ["0", "1", "2"]


def test_an_empty_array_holds_nothing_and_is_no_error() -> None:
    assert parse_signals(b"[]", NOW).outcomes == []


@pytest.mark.parametrize(
    ("kind", "sentiment"),
    [
        ("thumbs_up", 1),
        ("thumbs_down", -1),
        ("copy", 1),
        ("citation_click", 1),
        ("rephrase", -1),
        ("regenerate", -1),
        ("abandon", -1),
    ],
)
def test_the_kind_alone_has_a_sentiment(kind: str, sentiment: int) -> None:
    assert one(trace_id=TRACE, kind=kind).sentiment == sentiment


def test_a_comment_says_neither_yes_nor_no() -> None:
    assert one(trace_id=TRACE, kind="comment", comment="Where is page 3?").sentiment == 0


@pytest.mark.parametrize("value", [0, 0.0, False, -1, "-1", "0"])
def test_a_thumb_of_zero_or_less_is_a_thumb_down(value: Any) -> None:
    assert one(trace_id=TRACE, kind="thumbs_up", value=value).sentiment == -1


@pytest.mark.parametrize("value", [1, True, "1", 1.0])
def test_a_thumb_of_one_is_a_thumb_up(value: Any) -> None:
    assert one(trace_id=TRACE, kind="thumbs_up", value=value).sentiment == 1


@pytest.mark.parametrize("value", [0, 1, -1, True, None])
def test_a_thumb_down_is_never_positive(value: Any) -> None:
    signal = one(trace_id=TRACE, kind="thumbs_down", value=value, user_id="u1")
    assert signal.sentiment == (0 if value is None else -1)


@pytest.mark.parametrize(
    ("value", "scale", "sentiment"),
    [
        (0, None, -1),
        (1, None, 1),
        (-1, None, -1),
        (0.2, None, -1),
        (0.5, None, 0),
        (0.9, None, 1),
        (2, None, -1),
        (3, None, 0),
        (4, None, 1),
        (9, None, 1),
        (6, None, 0),
        (1, "1..5", -1),
        (5, "1..5", 1),
        (3, "1..10", -1),
        (1, "1..10", -1),
        (10, "1..10", 1),
        (0, "-1..1", 0),
        (-0.5, "-1..1", -1),
        (1, "-1..1", 1),
        ("4", "1..5", 1),
    ],
)
def test_a_rating_is_read_on_its_scale(value: Any, scale: str | None, sentiment: int) -> None:
    fields = {"trace_id": TRACE, "kind": "rating", "value": value}
    signal = one(**fields, **({} if scale is None else {"scale": scale}))
    assert signal.sentiment == sentiment
    assert signal.value == float(value)


@pytest.mark.parametrize(
    ("value", "raw"), [(0, "0"), (4, "4"), (0.5, "0.5"), (True, "true"), ("5", "5")]
)
def test_what_was_sent_is_kept_beside_its_number(value: Any, raw: str) -> None:
    assert one(trace_id=TRACE, kind="rating", value=value).raw_value == raw


def test_a_word_as_value_is_kept_where_no_number_is_needed() -> None:
    signal = one(trace_id=TRACE, kind="citation_click", value="footnote")
    assert signal.raw_value == "footnote"
    assert signal.value is None


def test_an_explicit_null_takes_the_same_users_signal_back() -> None:
    given = one(trace_id=TRACE, kind="rating", value=5, user_id="u1")
    taken = one(trace_id=TRACE, kind="rating", value=None, user_id="u1")

    assert taken.revoked is True
    assert taken.sentiment == 0
    assert taken.signal_id == given.signal_id


def test_an_absent_value_takes_nothing_back() -> None:
    assert one(trace_id=TRACE, kind="thumbs_up").revoked is False


def test_a_null_that_could_be_anybodys_is_refused() -> None:
    message = refusal({"trace_id": TRACE, "kind": "thumbs_up", "value": None})
    assert "value" in message
    assert "signal_id or user_id" in message


def test_a_later_signal_of_the_same_user_has_the_same_id() -> None:
    first = one(trace_id=TRACE, kind="rating", value=1, user_id="u1", occurred_at=1764400000)
    later = one(trace_id=TRACE, kind="rating", value=5, user_id="u1", occurred_at=1764400099)
    assert first.signal_id == later.signal_id


@pytest.mark.parametrize(
    "changed",
    [{"user_id": "u2"}, {"kind": "regenerate"}, {"trace_id": TRACE[::-1]}, {"document_id": "d2"}],
)
def test_another_user_kind_target_or_document_is_another_signal(changed: dict[str, str]) -> None:
    fields = {"trace_id": TRACE, "kind": "citation_click", "user_id": "u1", "document_id": "d1"}
    assert one(**fields).signal_id != one(**{**fields, **changed}).signal_id


def test_a_thumb_that_is_turned_round_is_the_same_thumb() -> None:
    up = one(trace_id=TRACE, kind="thumbs_up", user_id="u1")
    down = one(trace_id=TRACE, kind="thumbs_down", user_id="u1")
    assert up.signal_id == down.signal_id


def test_signals_of_one_user_on_two_spans_are_two_signals() -> None:
    first = one(trace_id=TRACE, span_id="00f067aa0ba902b7", kind="thumbs_up", user_id="u1")
    other = one(trace_id=TRACE, span_id="00f067aa0ba902b8", kind="thumbs_up", user_id="u1")
    assert first.signal_id != other.signal_id


@pytest.mark.parametrize("sent", ["00f067aa0ba902b7", "00F067AA0BA902B7", "0x00f067aa0ba902b7"])
def test_span_ids_are_brought_into_the_form_traces_have(sent: str) -> None:
    assert one(span_id=sent, kind="copy").span_id == "00f067aa0ba902b7"


@pytest.mark.parametrize("sent", ["0" * 16, "00f067aa0ba902b", TRACE, "step-1"])
def test_what_is_no_span_id_is_refused_with_the_cure(sent: str) -> None:
    assert "span_id: must be 16 hexadecimal digits" in refusal({"span_id": sent, "kind": "copy"})


@pytest.mark.parametrize(
    ("value", "sent", "kept"),
    [(4, None, "1..5"), (0.2, None, "0..1"), (7, None, "1..10"), (1, "1..5", "1..5")],
)
def test_the_scale_of_a_rating_is_kept(value: float, sent: str | None, kept: str) -> None:
    fields = {"trace_id": TRACE, "kind": "rating", "value": value}
    assert one(**fields, **({} if sent is None else {"scale": sent})).scale == kept


def test_the_same_text_in_two_id_fields_is_not_the_same_target() -> None:
    about_message = one(message_id="42", kind="copy", user_id="u1")
    about_conversation = one(conversation_id="42", kind="copy", user_id="u1")
    assert about_message.signal_id != about_conversation.signal_id


def test_an_anonymous_body_sent_again_is_the_same_signal() -> None:
    body = b'{"message_id": "m1", "kind": "thumbs_up", "occurred_at": 1764400000}'
    (first,) = parse_signals(body, NOW).signals
    (again,) = parse_signals(body, NOW + timedelta(minutes=5)).signals
    assert first.signal_id == again.signal_id


def test_anonymous_signals_of_different_moments_are_different_signals() -> None:
    first = one(message_id="m1", kind="thumbs_up", occurred_at=1764400000)
    other = one(message_id="m1", kind="thumbs_up", occurred_at=1764400001)
    assert first.signal_id != other.signal_id


@pytest.mark.parametrize(
    "sent", [TRACE, TRACE.upper(), "4BF92F35-77B3-4DA6-A3CE-929D0E0E4736", f" {TRACE} "]
)
def test_trace_ids_are_brought_into_the_form_traces_have(sent: str) -> None:
    assert one(trace_id=sent, kind="copy").trace_id == TRACE


@pytest.mark.parametrize("sent", ["0" * 32, TRACE[:31], "run-42", 7, True])
def test_what_is_no_trace_id_is_refused_with_the_cure(sent: Any) -> None:
    message = refusal({"trace_id": sent, "kind": "copy"})
    assert "trace_id" in message
    assert "32 hexadecimal digits" in message
    assert "message_id" in message


def test_ids_that_are_numbers_are_texts_afterwards() -> None:
    assert one(message_id=42, kind="copy").message_id == "42"


@pytest.mark.parametrize(
    "sent",
    [
        "2026-11-29T10:00:00Z",
        "2026-11-29T11:00:00+01:00",
        "2026-11-29T10:00:00",
        1795946400,
        1795946400.0,
        1795946400000,
        "1795946400",
        "1795946400000",
        1795946400000000,
        1795946400000000000,
    ],
)
def test_times_are_iso_or_unix_in_any_usual_unit(sent: Any) -> None:
    signal = one(trace_id=TRACE, kind="copy", occurred_at=sent)
    assert signal.occurred_at == datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
    assert signal.occurred_at.utcoffset() == timedelta(0)
    assert signal.received_at == NOW


@pytest.mark.parametrize(
    "sent", ["yesterday", [1], True, {}, "2026-13-01T00:00:00Z", "inf", "0001-01-01T00:00:00+10:00"]
)
def test_what_is_no_time_is_refused(sent: Any) -> None:
    message = refusal({"trace_id": TRACE, "kind": "copy", "occurred_at": sent})
    assert "occurred_at: must be an ISO 8601 time or a Unix time" in message


@pytest.mark.parametrize("sent", ["2026-12-05T00:00:00Z", 12, "1999-01-01T00:00:00Z"])
def test_an_impossible_time_is_refused(sent: Any) -> None:
    message = refusal({"trace_id": TRACE, "kind": "copy", "occurred_at": sent})
    assert "occurred_at: lies before 2000 or in the future" in message


def test_an_unknown_key_is_named_with_the_known_ones() -> None:
    message = refusal({"trace_id": TRACE, "kind": "copy", "traceid": "x"})
    assert "traceid: unknown key" in message
    assert "message_id" in message


def test_an_unknown_kind_is_refused_with_all_kinds() -> None:
    message = refusal({"trace_id": TRACE, "kind": "like"})
    for kind in get_args(SignalKind):
        assert kind in message


def test_a_signal_about_nothing_is_refused() -> None:
    message = refusal({"kind": "copy", "trace_id": "", "message_id": None})
    assert "trace_id: missing" in message
    assert "conversation_id" in message


@pytest.mark.parametrize("value", ["great", "", [1], "nan", "inf"])
def test_a_rating_that_is_no_number_is_refused(value: Any) -> None:
    assert "value: must be" in refusal({"trace_id": TRACE, "kind": "rating", "value": value})


def test_a_rating_without_a_value_is_refused() -> None:
    assert "value: missing" in refusal({"trace_id": TRACE, "kind": "rating"})


@pytest.mark.parametrize(("value", "scale"), [(7, "1..5"), (0, "1..10"), (11, None), (-2, None)])
def test_a_rating_off_its_scale_is_refused(value: int, scale: str | None) -> None:
    message = refusal({"trace_id": TRACE, "kind": "rating", "value": value, "scale": scale})
    assert "value: lies outside" in message
    assert "scale" in message


def test_a_comment_without_text_is_refused() -> None:
    assert "comment: missing" in refusal({"trace_id": TRACE, "kind": "comment"})


def test_good_signals_are_kept_beside_bad_ones_which_are_named_by_index() -> None:
    body = [
        {"trace_id": TRACE, "kind": "copy"},
        {"trace_id": TRACE, "kind": "like"},
        "thumbs_up",
        {"trace_id": TRACE, "kind": "abandon"},
    ]
    parsed = parse_signals(json.dumps(body).encode(), NOW)

    assert [signal.kind for signal in parsed.signals] == ["copy", "abandon"]
    kind, shape = parsed.rejected
    assert kind.startswith("[1] kind: must be one of")
    assert shape == "[2] must be a JSON object"


@pytest.mark.parametrize(
    "body", [b"", b"thumbs", b"5", b'"x"', b"null", b'{"kind":', b"\xff\xfe{}", b"[" * 100_000]
)
def test_what_is_no_json_object_or_array_is_refused(body: bytes) -> None:
    assert "body" in refusal(body)


def test_too_many_signals_at_once_are_refused_with_the_bound() -> None:
    body = [{"message_id": "m", "kind": "copy"}] * (MAX_SIGNALS + 1)
    assert str(MAX_SIGNALS) in refusal(body)


def test_what_users_wrote_is_never_in_a_message() -> None:
    secret = "my password is hunter2"
    bodies: list[Any] = [
        {"trace_id": secret, "kind": secret, "value": [secret], "comment": {"x": secret}},
        {"message_id": "m", "kind": "rating", "value": secret, "comment": secret},
        {"message_id": "m", "kind": "copy", "occurred_at": secret, "scale": secret},
        secret,
        {"message_id": "m", "kind": "comment", "comment": secret * 2000},
    ]
    for body in bodies:
        assert "hunter2" not in refusal([body])


def test_the_target_is_the_most_specific_id() -> None:
    signal = one(trace_id=TRACE, conversation_id="c1", message_id="m1", kind="copy")
    assert target_of(signal) == TRACE
    assert target_of(one(conversation_id="c1", message_id="m1", kind="copy")) == "m1"
