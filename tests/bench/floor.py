"""The floor of the end-to-end bench: protobuf parse and chDB insert, one row a trace, no more."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import clickhouse_connect
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.bench.load import spans_of

COLUMNS = ["trace_id", "started", "seconds", "spans", "model", "question", "answer", "documents"]


def rows(body: bytes) -> list[list[object]]:
    """Return one row a trace with the texts an answer's quality is judged by."""
    by_trace: dict[str, list[object]] = {}
    for span in spans_of(ExportTraceServiceRequest.FromString(body)):
        row = by_trace.setdefault(
            span.trace_id.hex(), [span.trace_id.hex(), 0, 0.0, 0, "", "", "", []]
        )
        row[3] = int(str(row[3])) + 1
        for attribute in span.attributes:
            key, value = attribute.key, attribute.value.string_value
            if key == "input.value" and not span.parent_span_id:
                row[5] = value
                row[1] = span.start_time_unix_nano
                row[2] = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
            elif key == "output.value" and not span.parent_span_id:
                row[6] = value
            elif key == "llm.model_name":
                row[4] = value
            elif key.endswith("document.content") and isinstance(row[7], list):
                row[7].append(value)
    return list(by_trace.values())


def main() -> None:
    """Measure and print one JSON object."""
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    payloads = [path.read_bytes() for path in sorted(source.iterdir())]
    client = clickhouse_connect.get_client(dsn=f"chdb://{folder / 'floor'}")
    client.command(
        "CREATE TABLE t (trace_id String, started Int64, seconds Float64, spans UInt32,"
        " model LowCardinality(String), question String, answer String, documents Array(String))"
        " ENGINE = MergeTree ORDER BY (started, trace_id)"
    )
    started, cpu = time.monotonic(), time.process_time()
    for body in payloads:
        client.insert("t", rows(body), column_names=COLUMNS)
    print(
        json.dumps(
            {
                "seconds": time.monotonic() - started,
                "cpu_seconds": time.process_time() - cpu,
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
