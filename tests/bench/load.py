"""Realistic OTLP bodies: recorded RAG traces with fresh ids, current times and longer documents."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

DATA = Path(__file__).parents[1] / "data"
TEMPLATES = (
    "openinference-langchain.pb",
    "openinference-llamaindex.pb",
    "openllmetry-langchain.pb",
)
# Document texts of the recordings; each is replaced by about 800 characters of varied prose.
_TEXTS = (
    "Shipping takes 3-5 business days.",
    "Returns are accepted within 30 days of delivery for a full refund.",
    "Sale items are final sale and cannot be returned.",
    "Gift cards never expire.",
)
_PROSE = (
    "the customer order is shipped within a few days after payment and may be returned in its "
    "original packaging when the period of return has not ended while refunds are sent to the "
    "same account unless another way was agreed before delivery of all parts"
)


def bodies(count: int, traces_per_body: int, seed: int = 1) -> Iterator[bytes]:
    """Yield serialized requests with `traces_per_body` whole traces each."""
    rng = random.Random(seed)
    templates = [ExportTraceServiceRequest.FromString((DATA / t).read_bytes()) for t in TEMPLATES]
    for number in range(count):
        merged = ExportTraceServiceRequest()
        for index in range(traces_per_body):
            one = ExportTraceServiceRequest()
            one.CopyFrom(templates[(number + index) % len(templates)])
            _freshen(one, rng)
            merged.resource_spans.extend(one.resource_spans)
        yield merged.SerializeToString()


def spans_of(request: ExportTraceServiceRequest) -> list[Span]:
    """Return all spans of a request."""
    return [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]


def _freshen(request: ExportTraceServiceRequest, rng: random.Random) -> None:
    """Give every trace and span of a request a new id, times near now and new documents."""
    spans = spans_of(request)
    shift = time.time_ns() - max(span.end_time_unix_nano for span in spans)
    ids: dict[bytes, bytes] = {b"": b""}
    replaced = {old: " ".join(rng.choices(_PROSE.split(), k=150)) for old in _TEXTS}
    for span in spans:
        for old_id in (span.trace_id, span.span_id, span.parent_span_id):
            ids.setdefault(old_id, rng.randbytes(len(old_id)))
    for span in spans:
        span.trace_id = ids[span.trace_id]
        span.span_id = ids[span.span_id]
        span.parent_span_id = ids[span.parent_span_id]
        span.start_time_unix_nano += shift
        span.end_time_unix_nano += shift
        for attribute in span.attributes:
            if attribute.value.HasField("string_value"):
                for old, new in replaced.items():
                    if old in attribute.value.string_value:
                        attribute.value.string_value = attribute.value.string_value.replace(
                            old, new
                        )
