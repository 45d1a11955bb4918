"""OTLP bytes to telemetry and back: total functions, any bad input is a MalformedPayload.

Reads OTLP/HTTP bodies in protobuf and JSON as the OpenTelemetry protocol 1.x defines them, and
what senders are known to make of it: base64 ids, enum names, 64-bit numbers in two halves,
snake_case keys, missing times. One span that cannot be read is left out and counted; the rest
of its body is kept.
"""

from collector.otlp.bodies import (
    Canonical,
    canonical_logs,
    canonical_traces,
    decode_logs,
    decode_traces,
    is_json,
)
from collector.otlp.json_values import clean_json, parse_json
from collector.otlp.merge import (
    collect_trace,
    decode_trace,
    encode_trace,
    join_spans,
    merge_traces,
    version_of,
)
from collector.otlp.split import split_by_trace

__all__ = [
    "Canonical",
    "canonical_logs",
    "canonical_traces",
    "clean_json",
    "collect_trace",
    "decode_logs",
    "decode_trace",
    "decode_traces",
    "encode_trace",
    "is_json",
    "join_spans",
    "merge_traces",
    "parse_json",
    "split_by_trace",
    "version_of",
]
