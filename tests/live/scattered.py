"""What applications send in the check of a Collector's topics, and how it is scattered."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import otlp
from tests.bench.load import bodies
from tests.conftest import SHARED

GENERATED = 60
SIGNAL_EVERY = 5
MOST_TOGETHER = 12
_SEED = 7


class Sent(NamedTuple):
    """Bodies of traces and of logs in protobuf, signals in JSON, and what they hold."""

    traces: list[bytes]
    logs: list[bytes]
    signals: list[bytes]
    spans: int
    records: int
    trace_ids: list[str]


def what_is_sent() -> Sent:
    """Return generated traces, and the captured ones with their logs where they are there."""
    traces: list[bytes] = []
    sizes: dict[str, int] = {}
    for body in (*bodies(GENERATED, 1), *_captured_traces()):
        own: dict[str, int] = {}
        for span in otlp.decode_traces(body, "").spans:
            own[span.trace_id] = own.get(span.trace_id, 0) + 1
        if not own.keys() & sizes.keys():  # some were captured twice, in two formats
            sizes |= own
            traces.append(body)
    logs = list(_captured_logs())
    signals = [
        json.dumps({"trace_id": trace_id, "kind": "thumbs_down", "user_id": "ana"}).encode()
        for trace_id in list(sizes)[::SIGNAL_EVERY]
    ]
    records = sum(len(otlp.decode_logs(body, "").logs) for body in logs)
    return Sent(traces, logs, signals, sum(sizes.values()), records, list(sizes))


def scattered(sent: Sent) -> tuple[list[bytes], list[bytes]]:
    """Return bodies of traces and of logs with few spans each, of any traces, in any order."""
    rng = random.Random(_SEED)
    trace_parts = [part for body in sent.traces for part in _spans_alone(body)]
    log_parts = [part for body in sent.logs for part in _records_alone(body)]
    return list(_together(trace_parts, rng)), list(_together(log_parts, rng))


def _captured_traces() -> Iterator[bytes]:
    folder = SHARED / "traces" / "captured"
    for path in sorted((*folder.glob("*/*.pb"), *folder.glob("vercel-ai/*.json"))):
        if "logs" not in path.name:
            yield otlp.canonical_traces(path.read_bytes(), "").body


def _captured_logs() -> Iterator[bytes]:
    for path in sorted((SHARED / "traces" / "captured").glob("*/*logs.json")):
        yield otlp.canonical_logs(path.read_bytes(), "").body


def _spans_alone(body: bytes) -> Iterator[ExportTraceServiceRequest]:
    """Yield each span with its resource and scope."""
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                one = ExportTraceServiceRequest()
                target = one.resource_spans.add(resource=group.resource)
                target.scope_spans.add(scope=scope.scope).spans.append(span)
                yield one


def _records_alone(body: bytes) -> Iterator[ExportLogsServiceRequest]:
    """Yield each log record with its resource and scope."""
    for group in ExportLogsServiceRequest.FromString(body).resource_logs:
        for scope in group.scope_logs:
            for record in scope.log_records:
                one = ExportLogsServiceRequest()
                target = one.resource_logs.add(resource=group.resource)
                target.scope_logs.add(scope=scope.scope).log_records.append(record)
                yield one


def _together(parts: Sequence[Any], rng: random.Random) -> Iterator[bytes]:
    """Yield parts in any order, a few of them in one body."""
    left = rng.sample(parts, len(parts))
    while left:
        count = rng.randint(1, MOST_TOGETHER)
        body = type(left[0])()
        for part in left[:count]:
            body.MergeFrom(part)
        yield body.SerializeToString()
        left = left[count:]
