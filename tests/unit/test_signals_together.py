"""What several messages about one signal say together, and which request a signal is about."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from collector.model import INFERRED, Signal, StoredRequest
from collector.signals import (
    Client,
    complained_about,
    is_complaint,
    langsmith,
    target_of,
    together,
)
from tests.fakes.store import stored

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ID = "01a2293b-e7f2-74b5-966d-8469fe11f7b1"
RUN = "01a22932-a7b0-76aa-ba67-54dc3cc9f09c"


def posted(minute: int, **fields: Any) -> Signal:
    at = AT + timedelta(minutes=minute)
    body = {"id": ID, "run_id": RUN, "key": "user_score", "modified_at": at.isoformat()} | fields
    (signal,) = langsmith.parse_feedback(msgspec.json.encode(body), Client(at)).signals
    return signal


def patched(minute: int, **fields: Any) -> Signal:
    at = AT + timedelta(minutes=minute)
    (signal,) = langsmith.parse_change(ID, msgspec.json.encode(fields), Client(at)).signals
    return signal


def deleted(minute: int) -> Signal:
    (signal,) = langsmith.deletion(ID, Client(AT + timedelta(minutes=minute))).signals
    return signal


def test_a_changed_score_keeps_target_and_comment() -> None:
    signal = together([posted(0, score=1, comment="good"), patched(1, score=0)])
    assert (signal.kind, signal.sentiment, signal.raw_value) == ("thumbs_down", -1, "0")
    assert signal.trace_id == RUN.replace("-", "")
    assert signal.comment == "good"
    assert signal.occurred_at == AT + timedelta(minutes=1)


def test_a_changed_comment_keeps_the_score() -> None:
    signal = together([posted(0, score=0), patched(1, comment="the price is old")])
    assert (signal.kind, signal.value) == ("thumbs_down", 0.0)
    assert signal.comment == "the price is old"


def test_a_score_changed_on_its_scale_is_read_on_that_scale() -> None:
    config = {"min": 1, "max": 5}
    signal = together([posted(0, score=5, feedback_config=config), patched(1, score=1)])
    assert (signal.kind, signal.sentiment, signal.scale) == ("rating", -1, "1..5")


def test_a_score_changed_to_null_is_taken_back() -> None:
    assert together([posted(0, score=1), patched(1, score=None)]).revoked


def test_what_is_taken_back_stays_so_until_a_score_is_given_anew() -> None:
    first = posted(0, score=1)
    assert together([first, deleted(1)]).revoked
    assert together([first, deleted(1), patched(2, comment="x")]).revoked
    assert together([first, deleted(1), posted(2, score=0)]).sentiment == -1
    again = together([first, patched(1, score=None), patched(2, score=0)])
    assert (again.revoked, again.kind, again.trace_id) == (False, "thumbs_down", first.trace_id)


def test_the_order_and_repetition_of_messages_make_no_difference() -> None:
    messages = [posted(0, score=1, comment="a"), patched(1, score=0), patched(2, comment="b")]
    results = {together(order) for order in itertools.permutations([*messages, messages[1]])}
    (result,) = results
    assert (result.kind, result.comment) == ("thumbs_down", "b")


def test_a_result_that_was_stored_takes_further_messages_like_its_parts() -> None:
    messages = [posted(0, score=1), patched(1, score=0), patched(2, comment="b")]
    stepwise = messages[0]
    for message in messages[1:]:
        stepwise = together([stepwise, message])
    assert stepwise == together(messages)


# --- Which request -----------------------------------------------------------------------


def request(**fields: Any) -> StoredRequest:
    span_ids = fields.pop("span_ids", [])
    return msgspec.structs.replace(stored("t1", started_at=AT, **fields), span_ids=span_ids)


def complaint(minute: int = 5, **fields: Any) -> Signal:
    at = AT + timedelta(minutes=minute)
    plain = Signal(signal_id="s", kind="thumbs_down", occurred_at=at, received_at=at, sentiment=-1)
    return msgspec.structs.replace(plain, **fields)


@pytest.mark.parametrize(
    "target",
    [
        {"trace_id": "t1"},
        {"span_id": "00f067aa0ba902b7"},
        {"response_id": "chatcmpl-1"},
        {"message_id": "m1"},
        {"conversation_id": "c1"},
        {"trace_id": "of another", "span_id": "00f067aa0ba902b7"},
    ],
)
def test_a_signal_finds_its_request_by_any_id(target: dict[str, Any]) -> None:
    row = request(
        span_ids=["00f067aa0ba902b7"],
        response_ids=["chatcmpl-0", "chatcmpl-1"],
        message_id="m1",
        conversation_id="c1",
    )
    assert complained_about([row], [complaint(**target)]) == [row]


def test_a_signal_on_a_message_is_not_about_the_rest_of_its_conversation() -> None:
    row = request(conversation_id="c1", message_id="m2")
    assert complained_about([row], [complaint(message_id="m1", conversation_id="c1")]) == []


@pytest.mark.parametrize(
    ("minute", "about"), [(-2, False), (0, True), (5, True), (60, True), (61, False)]
)
def test_a_signal_on_a_conversation_is_about_what_was_said_in_the_hour_before(
    minute: int, about: bool
) -> None:
    row = request(conversation_id="c1")
    found = complained_about([row], [complaint(minute, conversation_id="c1")])
    assert found == ([row] if about else [])


def test_no_id_is_the_same_as_another_kind_of_id() -> None:
    row = request(message_id="m1", response_ids=["r1"], conversation_id="c1")
    signals = [complaint(trace_id="m1"), complaint(response_id="m1"), complaint(message_id="r1")]
    assert complained_about([row], signals) == []


def test_only_what_a_user_said_is_a_complaint() -> None:
    assert is_complaint(complaint())
    assert not is_complaint(complaint(sentiment=0))
    assert not is_complaint(complaint(revoked=True))
    assert not is_complaint(complaint(kind="rephrase", source=INFERRED))


def test_signals_of_one_trace_have_one_place_in_the_journal() -> None:
    on_trace = complaint(trace_id="t1")
    on_span = complaint(trace_id="t1", span_id="00f067aa0ba902b7", message_id="m1")
    assert target_of(on_trace) == target_of(on_span) == "t1"
