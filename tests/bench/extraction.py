"""Time per trace of reading telemetry, against the bare protobuf parse of the same bytes.

Two measures to compare with, in the same run: `parse` is the C parser alone, which makes no
Python values; `walk` makes them, reading the key and the value of every attribute once and
keeping nothing. No reader in Python can be faster than the two together.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.extract import extract
from collector.model import Span, Trace
from collector.otlp import collect_trace, decode_traces
from tests.bench.load import DATA, bodies, spans_of

CONTENT_TYPE = "application/x-protobuf"
RECORDED = Path(__file__).parents[2].parent / "shared" / "traces" / "captured"
ROUNDS = 50
T = TypeVar("T")


def fastest(work: Callable[[T], object], items: Sequence[T]) -> float:
    """Return the seconds that `work` takes over all items.

    The fastest of some rounds counts, item by item: the others were disturbed.
    """
    total = 0.0
    for item in items:
        seconds = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            work(item)
            seconds.append(time.perf_counter() - started)
        total += min(seconds)
    return total


def walk(body: bytes) -> None:
    """Parse, and read the key and the value of every attribute of every span."""
    for span in spans_of(ExportTraceServiceRequest.FromString(body)):
        for attribute in span.attributes:
            _ = attribute.key, attribute.value.string_value


def traces_of(payloads: Iterable[bytes]) -> list[Trace]:
    """Return the traces of some request bodies."""
    spans: dict[str, list[Span]] = {}
    for body in payloads:
        for span in decode_traces(body, CONTENT_TYPE).spans:
            spans.setdefault(span.trace_id, []).append(span)
    return [collect_trace(trace_id, found) for trace_id, found in spans.items()]


def measure(name: str, payloads: list[bytes]) -> None:
    """Print one row: microseconds per trace, and the ratio to the parse."""
    traces = traces_of(payloads)
    spans = sum(len(trace.spans) for trace in traces) / len(traces)
    size = sum(map(len, payloads)) / len(traces)
    parse, walked, decode, extracted = (
        seconds * 1e6 / len(traces)
        for seconds in (
            fastest(ExportTraceServiceRequest.FromString, payloads),
            fastest(walk, payloads),
            fastest(lambda body: decode_traces(body, CONTENT_TYPE), payloads),
            fastest(extract, traces),
        )
    )
    both = decode + extracted
    print(
        f"{name:20}{len(traces):7}{spans:7.1f}{size / 1e3:7.1f}{parse:9.1f}{walked:9.1f}"
        f"{decode:9.1f}{extracted:9.1f}{both / parse:9.1f}{both / walked:9.1f}"
    )


def main() -> int:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(
        f"{'µs per trace':20}{'traces':>7}{'spans':>7}{'kB':>7}{'parse':>9}{'walk':>9}{'decode':>9}"
        f"{'extract':>9}{'/parse':>9}{'/walk':>9}"
    )
    measure("realistic bodies", list(bodies(20, 3)))
    recorded = sorted(p for p in RECORDED.glob("*/*.pb") if "logs" not in p.name)
    recorded = recorded or sorted(DATA.glob("*.pb"))
    measure("recorded files", [path.read_bytes() for path in recorded])
    return 0


if __name__ == "__main__":
    sys.exit(main())
