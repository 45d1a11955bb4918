"""Feedback in the words of other products: what their clients sent, and what it means here."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collector.errors import MalformedPayload
from collector.model import Signal
from collector.signals import Client, ParsedSignals, langfuse, langsmith, parse_signals, phoenix

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
CLIENT = Client(NOW)
RECORDED = Path(__file__).parents[1] / "data" / "feedback"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
RUN = "01a22932-a7b0-76aa-ba67-54dc3cc9f09c"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / name).read_text())


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def only(parsed: ParsedSignals) -> Signal:
    assert parsed.rejected == []
    assert parsed.ignored == []
    (signal,) = parsed.signals
    return signal


# --- Langfuse ----------------------------------------------------------------------------


def score(**fields: Any) -> Signal:
    given = {"traceId": TRACE, "name": "user-feedback", "value": 1} | fields
    return only(langfuse.parse_scores(raw(given), CLIENT))


def test_a_recorded_langfuse_score_is_a_thumb_on_its_trace() -> None:
    body = recorded("langfuse-sdk5-score-ingestion.json")
    signal = only(langfuse.parse_scores(raw(body), CLIENT))

    assert signal.signal_id == "b35feb0c5b4e51f5"
    assert signal.trace_id == "00000000000000000000000000000001"
    assert (signal.kind, signal.sentiment, signal.value) == ("thumbs_up", 1, 1.0)
    assert signal.comment == "helpful"
    assert signal.name == "user-feedback"
    assert signal.source == "langfuse"
    assert signal.occurred_at == datetime(2026, 11, 29, 21, 27, 23, 489703, tzinfo=UTC)


def test_a_langfuse_score_names_span_session_and_user() -> None:
    signal = score(observationId=SPAN, sessionId="chat-1", metadata={"user_id": "u1"})
    assert (signal.trace_id, signal.span_id) == (TRACE, SPAN)
    assert signal.conversation_id == "chat-1"
    assert signal.user_id == "u1"


def test_an_id_that_opentelemetry_does_not_have_is_the_apps_own_message_id() -> None:
    signal = score(traceId="cdef-1234-5678-90ab")
    assert signal.trace_id is None
    assert signal.message_id == "cdef-1234-5678-90ab"


@pytest.mark.parametrize(
    ("value", "data_type", "kind", "sentiment"),
    [
        (0, "BOOLEAN", "thumbs_down", -1),
        (0.0, "BOOLEAN", "thumbs_down", -1),
        (1.0, "BOOLEAN", "thumbs_up", 1),
        (0.9, "NUMERIC", "rating", 1),
        ("good", "CATEGORICAL", "thumbs_up", 1),
        ("bad", "CATEGORICAL", "thumbs_down", -1),
        ("The price is wrong", "TEXT", "comment", 0),
    ],
)
def test_langfuse_values_of_all_types_are_read(
    value: Any, data_type: str, kind: str, sentiment: int
) -> None:
    signal = score(value=value, dataType=data_type)
    assert (signal.kind, signal.sentiment) == (kind, sentiment)


def test_the_text_of_a_langfuse_text_score_is_the_comment() -> None:
    assert score(value="The price is wrong", dataType="TEXT").comment == "The price is wrong"


def test_a_langfuse_score_sent_again_with_its_id_is_the_same_signal() -> None:
    assert score(id="s1", value=1).signal_id == score(id="s1", value=0).signal_id == "s1"


def test_a_langfuse_score_without_an_id_is_kept() -> None:
    first, again = score(), score()
    assert first.signal_id == again.signal_id
    assert score(comment="other").signal_id != first.signal_id


def test_a_langfuse_score_of_null_is_taken_back() -> None:
    assert score(id="s1", value=None).revoked


def test_a_deleted_langfuse_score_is_taken_back() -> None:
    signal = only(langfuse.deletion("s1", CLIENT))
    assert (signal.signal_id, signal.revoked, signal.occurred_at) == ("s1", True, NOW)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": "faithfulness", "value": 0.4}, "unnamed"),
        ({"name": "toxicity", "value": "not toxic", "dataType": "CATEGORICAL"}, "unnamed"),
        ({"source": "EVAL"}, "machine"),
        ({"environment": "langfuse-llm-as-a-judge"}, "machine"),
        ({"datasetRunId": "run-1"}, "experiment"),
        ({"traceId": None}, "no_target"),
    ],
)
def test_langfuse_scores_that_no_user_gave_are_left_out_with_the_reason(
    fields: dict[str, Any], reason: str
) -> None:
    given = {"traceId": TRACE, "name": "user-feedback", "value": 1} | fields
    parsed = langfuse.parse_scores(raw(given), CLIENT)
    assert parsed.signals == []
    assert parsed.ignored == [reason]


def test_a_name_of_the_configuration_is_feedback() -> None:
    client = Client(NOW, {"quality": "1..5"})
    given = {"traceId": TRACE, "name": "quality", "value": 1}
    signal = only(langfuse.parse_scores(raw(given), client))
    assert (signal.kind, signal.sentiment, signal.scale) == ("rating", -1, "1..5")


def test_a_batch_of_events_is_read_event_by_event() -> None:
    score_event = {"id": "e1", "type": "score-create", "timestamp": "2026-11-30T10:00:00Z"}
    events = [
        {**score_event, "body": {"traceId": TRACE, "name": "thumbs", "value": 0}},
        {"id": "e2", "type": "trace-create", "body": {"id": TRACE}},
        {"id": "e3", "type": "score-create", "body": {"name": "x"}},
    ]
    parsed = langfuse.parse_ingestion(raw({"batch": events, "metadata": {}}), CLIENT)

    (signal,) = parsed.signals
    assert (signal.kind, signal.signal_id) == ("thumbs_down", "e1")
    assert signal.occurred_at == datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
    assert [outcome.ref for outcome in parsed.outcomes] == ["e1", "e2", "e3"]
    assert "OpenTelemetry" in parsed.rejected[0]
    assert "value: missing" in parsed.rejected[1]


@pytest.mark.parametrize("body", [b"{}", b'{"batch": 1}', b"[]", b"x"])
def test_a_batch_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedPayload):
        langfuse.parse_ingestion(body, CLIENT)


# --- LangSmith ---------------------------------------------------------------------------


def feedback(**fields: Any) -> Signal:
    given = {"run_id": RUN, "key": "user_score", "score": 1} | fields
    return only(langsmith.parse_feedback(raw(given), CLIENT))


def test_a_recorded_langsmith_feedback_is_a_thumb_down_under_the_ids_of_its_run() -> None:
    body = recorded("langsmith-sdk-feedback.json")["body"]
    signal = only(langsmith.parse_feedback(raw(body), CLIENT))

    assert signal.signal_id == "01a2293b-e7f2-74b5-966d-8469fe11f7b1"
    assert (signal.kind, signal.sentiment, signal.value, signal.raw_value) == (
        "thumbs_down",
        -1,
        0.0,
        "0",
    )
    # As LangSmith's own exporter derives them (langsmith/_internal/_otel_utils.py).
    assert signal.trace_id == "01a22932a7b076aaba6754dc3cc9f09c"
    assert signal.span_id == "01a22932a7b076aa"
    assert signal.message_id == RUN
    assert signal.comment == "wrong page"
    assert signal.user_id == "anon"


def test_langsmith_feedback_on_a_child_run_names_the_trace_of_its_root() -> None:
    root = "01a22930-0000-7000-8000-000000000001"
    signal = feedback(trace_id=root)
    assert signal.trace_id == "01a22930000070008000000000000001"
    assert signal.span_id == "01a22932a7b076aa"


def test_a_label_of_langsmith_feedback_speaks_where_there_is_no_score() -> None:
    signal = feedback(score=None, value="thumbs_down")
    assert (signal.kind, signal.raw_value) == ("thumbs_down", "thumbs_down")


def test_the_scale_of_a_langsmith_feedback_config_is_used() -> None:
    config = {"type": "continuous", "min": 1, "max": 5}
    signal = feedback(score=1, feedback_config=config)
    assert (signal.kind, signal.sentiment, signal.scale) == ("rating", -1, "1..5")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"feedback_source": {"type": "model"}}, "machine"),
        ({"feedback_source": {"type": "api", "metadata": {"__run": {"run_id": RUN}}}}, "machine"),
        ({"key": "correctness"}, "unnamed"),
        ({"comparative_experiment_id": RUN}, "experiment"),
        ({"run_id": None}, "no_target"),
    ],
)
def test_langsmith_feedback_that_no_user_gave_is_left_out_with_the_reason(
    fields: dict[str, Any], reason: str
) -> None:
    given = {"run_id": RUN, "key": "user_score", "score": 1} | fields
    assert langsmith.parse_feedback(raw(given), CLIENT).ignored == [reason]


def test_a_deleted_langsmith_feedback_is_taken_back() -> None:
    assert only(langsmith.deletion("f1", CLIENT)).revoked


# --- Phoenix -----------------------------------------------------------------------------


def annotation(**fields: Any) -> Signal:
    given = {"name": "user feedback", "annotator_kind": "HUMAN", "span_id": SPAN} | fields
    return only(phoenix.parse_annotations(raw({"data": [given]}), CLIENT))


def test_a_recorded_phoenix_span_annotation_is_a_thumb_down_on_its_span() -> None:
    body = recorded("phoenix-span-annotations.json")["body"]
    signal = only(phoenix.parse_annotations(raw(body), CLIENT))

    assert signal.span_id == "67f6740bbe1ddc3f"
    assert (signal.kind, signal.sentiment, signal.value) == ("thumbs_down", -1, 0.0)
    assert signal.comment == "wrong page cited"
    assert signal.user_id == "u-7"
    assert signal.source == "phoenix"


def test_a_recorded_phoenix_annotation_of_a_model_is_left_out() -> None:
    body = recorded("phoenix-document-annotations.json")["body"]
    parsed = phoenix.parse_annotations(raw(body), CLIENT)
    assert parsed.signals == []
    assert parsed.ignored == ["machine"]


def test_phoenix_annotations_of_traces_and_sessions_have_them_as_target() -> None:
    assert annotation(span_id=None, trace_id=TRACE, result={"score": 1}).trace_id == TRACE
    on_session = annotation(span_id=None, session_id="chat-1", result={"score": 1})
    assert on_session.conversation_id == "chat-1"


def test_a_persons_word_on_a_document_keeps_the_documents_rank() -> None:
    signal = annotation(name="relevance", document_position=0, result={"score": 0})
    assert signal.document_id == "rank:1"
    assert signal.kind == "thumbs_down"


def test_phoenix_annotations_are_one_per_name_target_and_identifier() -> None:
    down = annotation(identifier="u-7", result={"score": 0})
    up = annotation(identifier="u-7", result={"score": 1})
    others = [
        annotation(identifier="u-8", result={"score": 0}),
        annotation(identifier="u-7", name="rating", result={"score": 0}),
        annotation(identifier="u-7", span_id=SPAN[::-1], result={"score": 0}),
    ]
    assert down.signal_id == up.signal_id
    assert len({down.signal_id, *(other.signal_id for other in others)}) == 4


def test_a_phoenix_annotation_without_a_result_takes_it_back() -> None:
    given = annotation(identifier="u-7", result={"score": 0})
    taken = annotation(identifier="u-7", result=None)
    assert taken.revoked
    assert taken.signal_id == given.signal_id


def test_a_phoenix_note_is_a_comment() -> None:
    body = {"data": {"span_id": SPAN, "note": "hello"}}
    signal = only(phoenix.parse_note(raw(body), CLIENT))
    assert (signal.kind, signal.comment, signal.span_id) == ("comment", "hello", SPAN)


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"data": {}}', b"\xff"])
def test_what_is_no_annotation_body_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedPayload):
        phoenix.parse_annotations(body, CLIENT)


# --- Chat applications, on /v1/signals ---------------------------------------------------


def posted(body: Any) -> Signal:
    return only(parse_signals(raw(body), NOW))


def test_dify_feedback_is_a_thumb_of_its_user_and_null_takes_it_back() -> None:
    like = posted({"message_id": "m1", "rating": "like", "user": "abc-123", "content": "good"})
    assert (like.kind, like.message_id, like.user_id) == ("thumbs_up", "m1", "abc-123")
    assert (like.comment, like.source) == ("good", "dify")
    down = posted({"message_id": "m1", "rating": "dislike", "user": "abc-123"})
    gone = posted({"message_id": "m1", "rating": None, "user": "abc-123"})
    assert (down.kind, down.sentiment) == ("thumbs_down", -1)
    assert gone.revoked
    assert like.signal_id == down.signal_id == gone.signal_id


@pytest.mark.parametrize("rating", [-1, "-1"])
def test_an_open_webui_form_is_a_thumb_on_its_message(rating: Any) -> None:
    form = {
        "type": "rating",
        "data": {"rating": rating, "model_id": "gpt-4o", "comment": "wrong page"},
        "meta": {"arena": False, "chat_id": "c1", "message_id": "m1", "tags": ["General"]},
        "snapshot": {"chat": {}},
        "updated_at": 1795946400,
    }
    signal = posted(form)
    assert (signal.kind, signal.sentiment) == ("thumbs_down", -1)
    assert (signal.message_id, signal.conversation_id) == ("m1", "c1")
    assert signal.comment == "wrong page"
    assert signal.occurred_at == datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


def test_chainlit_feedback_of_zero_is_a_thumb_down() -> None:
    body = {"forId": "step-id", "value": 0, "threadId": "thread-id", "id": None, "comment": "bad"}
    signal = posted(body)
    assert (signal.kind, signal.message_id) == ("thumbs_down", "step-id")
    assert signal.conversation_id == "thread-id"


def test_flowise_feedback_is_one_per_message() -> None:
    body = {"chatflowid": "cf", "chatId": "chat", "messageId": "m1", "content": "wrong page"}
    down = posted({**body, "rating": "THUMBS_DOWN"})
    up = posted({**body, "rating": "THUMBS_UP"})
    assert (down.kind, up.kind) == ("thumbs_down", "thumbs_up")
    assert down.signal_id == up.signal_id
    assert (down.message_id, down.conversation_id) == ("m1", "chat")


def test_our_own_signals_are_never_taken_for_those_of_an_application() -> None:
    signal = posted({"kind": "rating", "message_id": "m1", "value": 4})
    assert signal.source == "signals"


# --- All of them -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parse", "body"),
    [
        (langfuse.parse_scores, {"traceId": TRACE, "name": "thumbs", "value": 1}),
        (langsmith.parse_feedback, {"run_id": RUN, "key": "thumbs", "score": 1}),
        (
            phoenix.parse_annotations,
            {"data": [{"name": "thumbs", "span_id": SPAN, "result": {"score": 1}}]},
        ),
        (phoenix.parse_note, {"data": {"span_id": SPAN, "note": "hunter2"}}),
    ],
)
def test_a_retry_is_the_same_signal(parse: Any, body: Any) -> None:
    first = only(parse(raw(body), CLIENT))
    again = only(parse(raw(body), Client(NOW + timedelta(minutes=3))))
    assert first.signal_id == again.signal_id


def test_what_users_wrote_is_in_no_message() -> None:
    secret = "my password is hunter2"
    bodies: list[tuple[Any, Any]] = [
        (langfuse.parse_scores, {"name": secret, "value": [secret], "traceId": {"a": secret}}),
        (langfuse.parse_scores, {"name": "thumbs", "value": 85, "comment": secret * 2000}),
        (langsmith.parse_feedback, {"key": "thumbs", "run_id": secret, "comment": [secret]}),
        (phoenix.parse_annotations, {"data": [{"name": "x", "span_id": secret}]}),
        (phoenix.parse_note, {"data": {"span_id": secret, "note": secret}}),
    ]
    for parse, body in bodies:
        with pytest.raises(MalformedPayload) as refused:
            parse(raw(body), CLIENT)
        assert "hunter2" not in str(refused.value)
