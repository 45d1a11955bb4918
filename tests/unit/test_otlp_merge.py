"""What several reports of one trace say together."""

from __future__ import annotations

from typing import Any

import pytest

from collector.errors import MalformedPayload
from collector.model import LogRecord
from collector.otlp import (
    collect_trace,
    decode_trace,
    encode_trace,
    join_spans,
    merge_traces,
    version_of,
)
from tests.fakes.spans import START_NS, TRACE_ID, event, span, trace


def test_a_late_end_completes_what_was_reported_at_the_start() -> None:
    begun = span(0, {"input.value": "q"}, end_ns=None, status_code=0)
    ended = span(0, {"output.value": "a"}, end_ns=START_NS + 5, status_code=1)
    both = join_spans(begun, ended)
    assert both.attributes == {"input.value": "q", "output.value": "a"}
    assert (both.end_ns, both.status_code) == (START_NS + 5, 1)
    assert join_spans(ended, begun) == both


def test_of_two_values_the_fuller_one_counts() -> None:
    early = span(0, {"output.value": "Pro", "tokens": 0}, events=[event("a")])
    late = span(
        0, {"output.value": "Pro costs 12.", "tokens": 220}, events=[event("a"), event("b")]
    )
    both = join_spans(early, late)
    assert both.attributes == {"output.value": "Pro costs 12.", "tokens": 220}
    assert [e.name for e in both.events] == ["a", "b"]


def test_a_repeated_span_or_log_record_counts_once() -> None:
    record = LogRecord(trace_id=TRACE_ID, event_name="x", time_ns=1, body={"a": 1})
    other = LogRecord(trace_id=TRACE_ID, event_name="x", time_ns=1, body={"a": 2})
    merged = collect_trace(TRACE_ID, [span(0), span(1), span(0)], [record, other, record])
    assert len(merged.spans) == 2
    assert len(merged.logs) == 2


def test_spans_come_in_order_of_start_then_id() -> None:
    same: dict[str, Any] = {"start_ns": START_NS}
    merged = trace(span(3, **same), span(2, **same), span(1, start_ns=START_NS - 1))
    assert [s.span_id[-1] for s in merged.spans] == ["2", "3", "4"]


def test_the_best_known_reason_of_closing_is_kept() -> None:
    partial = collect_trace(TRACE_ID, [span(1)], closed_by="evicted", spans_dropped=3)
    whole = collect_trace(TRACE_ID, [span(0)], closed_by="root")
    merged = merge_traces(partial, whole)
    assert (merged.closed_by, merged.spans_dropped) == ("root", 3)


def test_the_version_grows_with_every_span_log_and_attribute() -> None:
    first = trace(span(0, {"a": "x"}))
    versions = [
        version_of(first),
        version_of(trace(span(0, {"a": "xy"}))),
        version_of(trace(span(0, {"a": "xy", "b": 1}))),
        version_of(trace(span(0, {"a": "xy", "b": 1}), span(1))),
        version_of(trace(span(0, {"a": "x"}), span(1), logs=(LogRecord(trace_id=TRACE_ID),))),
    ]
    assert versions == sorted(set(versions))


def test_the_version_does_not_depend_on_how_often_a_span_came() -> None:
    once = trace(span(0, {"a": 1}), span(1))
    assert version_of(merge_traces(once, once)) == version_of(once)


def test_a_stored_trace_is_read_back_whole() -> None:
    stored = trace(
        span(0, {"a": [1, {"b": None}], "c": b"\x00", "d": 0.5}, events=[event("e", {"f": True})])
    )
    assert decode_trace(encode_trace(stored)) == stored


@pytest.mark.parametrize("data", [b"", b"\x00", b"{}", b"\xff" * 9])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedPayload, match="not an encoded trace"):
        decode_trace(data)
