"""What is kept of traces that tell of no request yet, or never will, has its bounds."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import otlp
from collector.telemetry import Metrics
from tests.unit.test_pipeline import CONFIG, Rig, one_trace, until

TRACE = bytes(range(16))


def part(number: int, note: str = "") -> bytes:
    """Return a span of a worker whose trace never ends: its parent is never sent."""
    body = ExportTraceServiceRequest()
    span = (
        body.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            trace_id=TRACE,
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=b"\xff" * 8,
            name="poll",
            start_time_unix_nano=number * 10**9 + 1,
            end_time_unix_nano=number * 10**9 + 2,
        )
    )
    span.attributes.add(key="note").value.string_value = note
    return body.SerializeToString()


async def to_a_fresh_process(rig: Rig, body: bytes) -> None:
    before = rig.journal.log.positions.get(("telemetry", "g"), 0)
    async with rig.running():
        await rig.send(body)
        await until(lambda: rig.committed() > before)


async def test_a_trace_that_never_ends_grows_to_its_bound_and_no_further(metrics: Metrics) -> None:
    rig = Rig(metrics, assembler={**CONFIG["assembler"], "max_spans_per_trace": 3})
    for number in range(6):
        await to_a_fresh_process(rig, part(number))
    (kept,) = rig.store.kept.values()
    spans = otlp.decode_trace(kept.telemetry).spans
    assert [int(span.span_id, 16) for span in spans] == [1, 2, 3]
    assert rig.count("spans_dropped_total") == 3


@pytest.mark.parametrize(("size", "dropped"), [(1_000, 0), (40_000_000, 1)])
async def test_spans_too_large_to_be_looked_up_again_are_not_kept_and_counted(
    metrics: Metrics, size: int, dropped: int
) -> None:
    rig = Rig(metrics)
    await to_a_fresh_process(rig, part(0, note="x" * size))
    assert len(rig.store.kept) == 1 - dropped
    assert rig.count("spans_dropped_total") == dropped


async def test_a_request_is_stored_without_spans_too_large_to_be_looked_up_again(
    metrics: Metrics,
) -> None:
    rig, whole = Rig(metrics), one_trace()
    span = whole.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="dump").value.string_value = "x" * 40_000_000
    await to_a_fresh_process(rig, whole.SerializeToString())
    (row,) = rig.store.by_trace.values()
    assert row.request.question == "What is the return policy?"
    assert row.telemetry == b""
