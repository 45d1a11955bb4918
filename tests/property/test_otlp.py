"""Whatever bytes come in: telemetry or a clean refusal, and merging never depends on order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.errors import MalformedPayload
from collector.model import Span, SpanEvent, Telemetry, Trace
from collector.otlp import (
    canonical_logs,
    canonical_traces,
    collect_trace,
    decode_logs,
    decode_trace,
    decode_traces,
    encode_trace,
    merge_traces,
    version_of,
)

T = TypeVar("T")
DATA = Path(__file__).parents[1] / "data"
PROTOBUF = "application/x-protobuf"
CONTENT_TYPES = st.sampled_from(["application/json", PROTOBUF, "", "text/plain"])
BODY = (DATA / "openinference-langchain.pb").read_bytes()

values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.binary(max_size=4),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)
attributes = st.dictionaries(st.sampled_from(["a", "b", "output.value"]), values, max_size=3)
times = st.none() | st.integers(1, 2**64 - 1)
spans = st.builds(
    Span,
    trace_id=st.just("0" * 31 + "1"),
    span_id=st.sampled_from(["0" * 15 + "1", "0" * 15 + "2", "0" * 15 + "3"]),
    parent_span_id=st.none() | st.just("0" * 15 + "1"),
    name=st.text(max_size=3),
    start_ns=times,
    end_ns=times,
    attributes=attributes,
    events=st.lists(
        st.builds(SpanEvent, name=st.text(max_size=3), time_ns=times, attributes=attributes),
        max_size=2,
    ),
    status_code=st.integers(0, 2),
)
traces = st.lists(spans, max_size=5).map(lambda found: collect_trace("0" * 31 + "1", found))


def readable(body: bytes, content_type: str) -> None:
    for check, read in ((canonical_traces, decode_traces), (canonical_logs, decode_logs)):
        checked = attempt(check, body, content_type)
        telemetry = attempt(read, body, content_type)
        if isinstance(checked, str) or isinstance(telemetry, str):
            assert checked == telemetry
            continue
        assert checked.spans == len(telemetry.spans) + len(telemetry.logs)
        assert checked.rejected == telemetry.rejected
        again = read(checked.body, PROTOBUF)
        assert packed(again) == packed(telemetry)
        assert again.rejected == 0


def attempt(function: Callable[..., T], *arguments: Any) -> T | str:
    """Return the result, or the words of the refusal: the only error there may be."""
    try:
        return function(*arguments)
    except MalformedPayload as refusal:
        return str(refusal)


def packed(telemetry: Telemetry) -> bytes:
    """NaN is not equal to itself, its bytes are."""
    return msgspec.msgpack.encode((telemetry.spans, telemetry.logs))


@given(st.binary(max_size=200), CONTENT_TYPES)
def test_random_bytes_are_read_or_refused(body: bytes, content_type: str) -> None:
    readable(body, content_type)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(BODY) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(BODY)),
)
def test_a_damaged_protobuf_body_is_read_or_refused(
    changes: list[tuple[int, int]], length: int
) -> None:
    body = bytearray(BODY)
    for position, byte in changes:
        body[position] = byte
    readable(bytes(body), PROTOBUF)
    readable(bytes(body[:length]), PROTOBUF)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_json_of_any_shape_is_read_or_refused(data: st.DataObject) -> None:
    plain = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=40)
        | st.sampled_from(["0" * 31 + "1", "AAAAAAAAAAAAAAAAAAAAAQ==", "SPAN_KIND_CLIENT"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "spans",
                        "traceId",
                        "spanId",
                        "attributes",
                        "key",
                        "value",
                        "stringValue",
                        "intValue",
                        "arrayValue",
                        "values",
                        "kvlistValue",
                        "bytesValue",
                        "events",
                        "status",
                        "kind",
                        "startTimeUnixNano",
                        "low",
                        "high",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
    span = data.draw(st.dictionaries(st.sampled_from(list(SPAN_KEYS)), plain, max_size=8))
    record = data.draw(plain)
    for value in (
        {"resourceSpans": data.draw(plain)},
        {"resourceSpans": [{"resource": record, "scopeSpans": [{"spans": [span, record]}]}]},
        {"resourceLogs": [{"resource": span, "scopeLogs": [{"logRecords": [span, record]}]}]},
    ):
        readable(json.dumps(value).encode(), "application/json")


SPAN_KEYS = (
    "traceId",
    "spanId",
    "parentSpanId",
    "name",
    "kind",
    "startTimeUnixNano",
    "attributes",
    "events",
    "status",
    "body",
    "eventName",
)


@settings(max_examples=40, deadline=None)
@given(traces)
def test_a_trace_survives_being_stored(trace: Trace) -> None:
    assert decode_trace(encode_trace(trace)) == trace


@given(st.binary(max_size=60))
def test_other_bytes_are_no_stored_trace(data: bytes) -> None:
    assert isinstance(attempt(decode_trace, data), str | Trace)


@settings(max_examples=40, deadline=None)
@given(traces, traces, traces)
def test_merging_does_not_depend_on_order_grouping_or_repetition(
    a: Trace, b: Trace, c: Trace
) -> None:
    whole = merge_traces(merge_traces(a, b), c)
    assert merge_traces(a, merge_traces(b, c)) == whole
    assert merge_traces(merge_traces(c, b), a) == whole
    assert merge_traces(whole, b) == whole
    assert merge_traces(whole, whole) == whole


@settings(max_examples=40, deadline=None)
@given(traces, traces)
def test_the_version_grows_with_what_is_known(a: Trace, b: Trace) -> None:
    whole = merge_traces(a, b)
    assert version_of(whole) >= max(version_of(a), version_of(b))
    assert version_of(merge_traces(b, whole)) == version_of(whole)
    assert version_of(whole) < 2**64
    if len(whole.spans) > len(a.spans):
        assert version_of(whole) > version_of(a)


@settings(max_examples=40, deadline=None)
@given(traces.filter(lambda trace: bool(trace.spans)), st.text(min_size=1, max_size=5))
def test_the_version_grows_with_a_new_attribute(trace: Trace, text: str) -> None:
    told: dict[str, Any] = {**trace.spans[0].attributes, "new": text}
    grown = msgspec.structs.replace(trace.spans[0], attributes=told)
    assert version_of(merge_traces(trace, collect_trace(trace.trace_id, [grown]))) > version_of(
        trace
    )
