"""OTLP bodies in all the forms senders really use."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest

from collector.errors import MalformedPayload
from collector.model import Span
from collector.otlp import canonical_logs, canonical_traces, decode_logs, decode_traces
from tests.fakes.otlp_bodies import log_request, trace_request

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
TRACE_ID = "5b8efff798038103d269b633813fc60c"
SPAN_ID = "eee19b7ec3c1b174"


def body(*spans: dict[str, Any], resource: Any = None) -> bytes:
    scope = {"scope": {"name": "app"}, "spans": list(spans)}
    group = {"resource": resource or {}, "scopeSpans": [scope]}
    return json.dumps({"resourceSpans": [group]}).encode()


def span(**fields: Any) -> dict[str, Any]:
    return {"traceId": TRACE_ID, "spanId": SPAN_ID, "name": "step", **fields}


def read(*spans: dict[str, Any]) -> list[Span]:
    return decode_traces(body(*spans), JSON).spans


def attribute(value: Any) -> Any:
    (found,) = read(span(attributes=[{"key": "a", "value": value}]))
    return found.attributes["a"]


def test_the_example_of_the_protocol_is_read_in_full() -> None:
    (found,) = decode_traces(
        body(
            {
                "traceId": "5B8EFFF798038103D269B633813FC60C",
                "spanId": "EEE19B7EC3C1B174",
                "parentSpanId": "EEE19B7EC3C1B173",
                "name": "I'm a server span",
                "startTimeUnixNano": "1544712660000000000",
                "endTimeUnixNano": "1544712661000000000",
                "kind": 2,
                "attributes": [{"key": "my.span.attr", "value": {"stringValue": "some value"}}],
                "status": {"code": 2, "message": "broken"},
                "droppedAttributesCount": 3,
                "events": [{"name": "exception", "timeUnixNano": "1544712660500000000"}],
            },
            resource={"attributes": [{"key": "service.name", "value": {"stringValue": "svc"}}]},
        ),
        JSON,
    ).spans
    assert found.trace_id == TRACE_ID
    assert found.span_id == SPAN_ID
    assert found.parent_span_id == "eee19b7ec3c1b173"
    assert found.name == "I'm a server span"
    assert found.start_ns == 1544712660000000000
    assert found.end_ns == 1544712661000000000
    assert found.kind == 2
    assert found.attributes == {"my.span.attr": "some value"}
    assert (found.status_code, found.status_message) == (2, "broken")
    assert found.dropped_attributes == 3
    assert found.events[0].time_ns == 1544712660500000000
    assert found.scope_name == "app"
    assert found.resource == {"service.name": "svc"}


@pytest.mark.parametrize(
    "trace_id",
    [
        TRACE_ID,
        TRACE_ID.upper(),
        "5b8efff7-9803-8103-d269-b633813fc60c",
        "0x" + TRACE_ID,
        base64.b64encode(bytes.fromhex(TRACE_ID)).decode(),
        base64.b64encode(bytes.fromhex(TRACE_ID)).decode().rstrip("="),
        {"type": "Buffer", "data": list(bytes.fromhex(TRACE_ID))},
        list(bytes.fromhex(TRACE_ID)),
        {str(i): byte for i, byte in enumerate(bytes.fromhex(TRACE_ID))},
    ],
    ids=["hex", "upper", "uuid", "0x", "base64", "unpadded", "buffer", "list", "uint8array"],
)
def test_a_trace_id_is_read_in_every_form(trace_id: Any) -> None:
    (found,) = read(span(traceId=trace_id))
    assert found.trace_id == TRACE_ID


def test_an_id_that_lost_its_leading_zero_gets_it_back() -> None:
    (found,) = read(span(traceId=TRACE_ID[1:], spanId="1"))
    assert found.trace_id == "0" + TRACE_ID[1:]
    assert found.span_id == "0000000000000001"


def test_hex_digits_taken_for_base64_by_the_sender_are_turned_back() -> None:
    request = trace_request()
    made = request.resource_spans[0].scope_spans[0].spans[0]
    made.trace_id = base64.b64decode(TRACE_ID)
    made.span_id = base64.b64decode(SPAN_ID)
    assert len(made.trace_id) == 24
    (found,) = decode_traces(request.SerializeToString(), PROTOBUF).spans
    assert (found.trace_id, found.span_id) == (TRACE_ID, SPAN_ID)


def test_hex_digits_sent_as_bytes_are_read() -> None:
    request = trace_request()
    made = request.resource_spans[0].scope_spans[0].spans[0]
    made.trace_id, made.span_id = TRACE_ID.encode(), SPAN_ID.encode()
    (found,) = decode_traces(request.SerializeToString(), PROTOBUF).spans
    assert (found.trace_id, found.span_id) == (TRACE_ID, SPAN_ID)


@pytest.mark.parametrize("parent", ["", "0000000000000000", None, "not an id"])
def test_a_root_is_told_by_an_empty_parent(parent: str | None) -> None:
    (found,) = read(span(parentSpanId=parent))
    assert found.parent_span_id is None


@pytest.mark.parametrize("trace_id", ["", "0" * 32, "abc xyz", None, 12, "f" * 33, [999] * 16])
def test_a_span_without_a_usable_id_is_left_out_and_counted(trace_id: Any) -> None:
    told = decode_traces(body(span(traceId=trace_id), span()), JSON)
    assert len(told.spans) == 1
    assert told.rejected == 1
    assert told.rejected_reason == "traceId: must be 32 hex digits, not all zero"
    checked = canonical_traces(body(span(traceId=trace_id), span()), JSON)
    assert (checked.spans, checked.rejected) == (1, 1)


def test_a_protobuf_span_without_id_is_left_out_of_what_is_kept() -> None:
    sent = trace_request(spans=2, without_id=1).SerializeToString()
    checked = canonical_traces(sent, PROTOBUF)
    assert (checked.spans, checked.rejected) == (2, 1)
    assert len(decode_traces(checked.body, PROTOBUF).spans) == 2
    assert canonical_traces(checked.body, PROTOBUF).rejected == 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "text"}, "text"),
        ({"intValue": "42"}, 42),
        ({"intValue": 42}, 42),
        ({"intValue": {"low": 42, "high": 0}}, 42),
        ({"intValue": {"low": -1, "high": -1, "unsigned": False}}, -1),
        ({"intValue": str(2**63 - 1)}, 2**63 - 1),
        ({"intValue": 2**70}, float(2**70)),
        ({"intValue": "many"}, "many"),
        ({"doubleValue": 0.25}, 0.25),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({"boolValue": False}, False),
        ({"bytesValue": "AQI="}, b"\x01\x02"),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "1"}]}}, ["a", 1]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}]}}, {"k": True}),
        ({"string_value": "snake"}, "snake"),
        ({}, None),
        (None, None),
        ("not wrapped", "not wrapped"),
        ({"stringValue": 5}, "5"),
        ({"stringValue": "half \ud83d pair"}, "half \ufffd pair"),
    ],
)
def test_an_attribute_value_of_any_kind_is_read(value: Any, expected: Any) -> None:
    found = attribute(value)
    assert found == expected
    assert type(found) is type(expected)


def test_not_a_number_stays_not_a_number() -> None:
    assert math.isnan(attribute({"doubleValue": "NaN"}))
    sent = body(span(attributes=[{"key": "a", "value": {"doubleValue": 1.0}}])).replace(
        b"1.0", b"NaN"
    )
    assert math.isnan(decode_traces(sent, JSON).spans[0].attributes["a"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("SPAN_KIND_SERVER", 2), ("CLIENT", 3), (4, 4), ("5", 5), ("odd", 0), (99, 0), (None, 0)],
)
def test_a_span_kind_is_read_as_number_or_name(kind: Any, expected: int) -> None:
    (found,) = read(span(kind=kind))
    assert found.kind == expected


@pytest.mark.parametrize("code", [2, "2", "STATUS_CODE_ERROR", "Error"])
def test_an_error_status_is_read_as_number_or_name(code: Any) -> None:
    (found,) = read(span(status={"code": code}))
    assert found.status_code == 2


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1700000000000000001", 1700000000000000001),
        (1700000000000000001, 1700000000000000001),
        ({"low": -1644167167, "high": 395812355}, (395812355 << 32) + 2650800129),
        (None, None),
        ("0", None),
        (-5, None),
        ("soon", None),
        (2**64, None),
    ],
)
def test_a_time_is_read_or_unknown(time: Any, expected: int | None) -> None:
    (found,) = read(span(startTimeUnixNano=time))
    assert found.start_ns == expected
    assert found.end_ns is None


def test_names_in_snake_case_are_read() -> None:
    sent = {
        "resource_spans": [
            {
                "scope_spans": [
                    {
                        "spans": [
                            {"trace_id": TRACE_ID, "span_id": SPAN_ID, "start_time_unix_nano": 7}
                        ]
                    }
                ]
            }
        ]
    }
    (found,) = decode_traces(json.dumps(sent).encode(), JSON).spans
    assert (found.trace_id, found.start_ns) == (TRACE_ID, 7)


@pytest.mark.parametrize("content_type", ["", "text/plain", PROTOBUF, "application/json; x=y"])
def test_json_is_recognised_whatever_the_header_says(content_type: str) -> None:
    assert len(decode_traces(b" \r\n" + body(span()), content_type).spans) == 1
    assert len(decode_traces(b"\xef\xbb\xbf" + body(span()), content_type).spans) == 1


@pytest.mark.parametrize("content_type", ["", "text/plain", JSON, "application/octet-stream"])
def test_protobuf_is_recognised_whatever_the_header_says(content_type: str) -> None:
    sent = trace_request(spans=3).SerializeToString()
    assert len(decode_traces(sent, content_type).spans) == 3


def test_json_after_a_line_break_is_recognised_by_its_header() -> None:
    assert len(decode_traces(b"\n" + body(span()), JSON).spans) == 1


def test_a_protobuf_body_passes_unchanged() -> None:
    sent = trace_request(spans=4).SerializeToString()
    assert canonical_traces(sent, PROTOBUF) == (sent, 4, 0, None)


def test_json_and_protobuf_of_the_same_spans_are_the_same() -> None:
    sent = body(span(attributes=[{"key": "a", "value": {"intValue": "3"}}]), span(spanId="2"))
    checked = canonical_traces(sent, JSON)
    assert decode_traces(checked.body, PROTOBUF) == decode_traces(sent, JSON)


@pytest.mark.parametrize("empty", [b"", b"{}", b'{"resourceSpans": []}'])
def test_an_empty_request_is_fine(empty: bytes) -> None:
    assert canonical_traces(empty, JSON).spans == 0
    assert decode_traces(empty, JSON).spans == []


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"{not json", "not JSON at line 1 column 2"),
        (b"[]", "must be a JSON object with resourceSpans"),
        (b'"text"', "must be a JSON object with resourceSpans"),
        (b'{"resourceLogs": []}', "belongs to /v1/logs"),
        (b'{"other": 1}', "resourceSpans: missing"),
        (b'{"resourceSpans": {}}', "resourceSpans: must be a JSON array"),
        (b'{"resourceSpans": [{"scopeSpans": 5}]}', "scopeSpans: must be a JSON array"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"resourceSpans":' * 50_000, "nested too deep"),
    ],
)
def test_a_bad_json_body_is_refused_with_the_field_and_the_cure(sent: bytes, words: str) -> None:
    for function in (decode_traces, canonical_traces):
        with pytest.raises(MalformedPayload) as refused:
            function(sent, JSON)
        assert words in str(refused.value)


@pytest.mark.parametrize("sent", [b"\x0a\xff", b"hello", b"\x00", b"\x08\x01"])
def test_bytes_that_are_no_request_are_refused(sent: bytes) -> None:
    with pytest.raises(MalformedPayload, match="not a protobuf ExportTraceServiceRequest"):
        decode_traces(sent, PROTOBUF)


def test_a_body_cut_short_is_refused() -> None:
    sent = trace_request(spans=3).SerializeToString()
    with pytest.raises(MalformedPayload):
        canonical_traces(sent[:-5], PROTOBUF)


def test_a_refusal_never_repeats_what_users_wrote() -> None:
    secret = "my salary is 4711"
    for sent in (f'{{"resourceSpans": "{secret}"', f'{{"{secret}": 1}}', secret):
        with pytest.raises(MalformedPayload) as refused:
            decode_traces(sent.encode(), JSON)
        assert "4711" not in str(refused.value)


def test_one_text_that_is_not_utf8_costs_one_span() -> None:
    sent = trace_request(spans=3, text="What does Pro cost?").SerializeToString()
    damaged = sent.replace(b"Pro cost?", b"Pro cos\xc3\xff", 1)
    told = decode_traces(damaged, PROTOBUF)
    assert len(told.spans) == 2
    assert told.rejected == 1
    assert "not UTF-8" in (told.rejected_reason or "")
    checked = canonical_traces(damaged, PROTOBUF)
    assert (checked.spans, checked.rejected) == (2, 1)
    assert len(decode_traces(checked.body, PROTOBUF).spans) == 2


def test_a_text_in_json_that_is_not_utf8_is_mended() -> None:
    sent = body(span(name="caf?")).replace(b"caf?", b"caf\xe9")
    (found,) = decode_traces(sent, JSON).spans
    assert found.name == "caf\ufffd"


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    return value


def test_a_value_nested_too_deep_costs_its_span_only() -> None:
    deep = span(attributes=[{"key": "a", "value": nested(200)}])
    told = decode_traces(body(deep, span(spanId="2")), JSON)
    assert [s.span_id for s in told.spans] == ["0000000000000002"]
    assert told.rejected_reason == "attributes: a value is nested deeper than 32 levels"
    (fine,) = read(span(attributes=[{"key": "a", "value": nested(20)}]))
    assert fine.attributes["a"]


def test_attributes_given_as_an_object_are_read() -> None:
    (found,) = read(span(attributes={"a": 1, "b": ["x"], "c": {"stringValue": "y"}}))
    assert found.attributes == {"a": 1, "b": ["x"], "c": "y"}


def test_log_records_join_their_span_and_name_their_event() -> None:
    sent = {
        "resourceLogs": [
            {
                "scopeLogs": [
                    {
                        "logRecords": [
                            {
                                "traceId": TRACE_ID.upper(),
                                "spanId": SPAN_ID,
                                "observedTimeUnixNano": "9",
                                "attributes": [
                                    {"key": "event.name", "value": {"stringValue": "gen_ai.choice"}}
                                ],
                                "body": {"kvlistValue": {"values": [{"key": "i", "value": {}}]}},
                            },
                            {"eventName": "other", "timeUnixNano": 5, "body": "plain"},
                        ]
                    }
                ]
            }
        ]
    }
    first, second = decode_logs(json.dumps(sent).encode(), JSON).logs
    assert (first.trace_id, first.span_id) == (TRACE_ID, SPAN_ID)
    assert (first.event_name, first.time_ns, first.body) == ("gen_ai.choice", 9, {"i": None})
    assert (second.trace_id, second.span_id, second.event_name) == (None, None, "other")
    assert (second.time_ns, second.body) == (5, "plain")


def test_logs_in_protobuf_pass_unchanged() -> None:
    sent = log_request(records=2).SerializeToString()
    assert canonical_logs(sent, PROTOBUF) == (sent, 2, 0, None)
    assert decode_logs(sent, PROTOBUF).logs[0].event_name == "gen_ai.evaluation.result"


def test_logs_sent_as_traces_are_not_taken_for_spans() -> None:
    told = decode_traces(log_request(records=2).SerializeToString(), PROTOBUF)
    assert told.spans == []
    assert told.rejected == 2
