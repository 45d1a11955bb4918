"""Bodies that are small as bytes and huge as values: refused before they are parsed.

An empty message takes 2 bytes on the wire and 140 in memory, and a walk over it in Python a
microsecond. Real telemetry is mostly text, so it stays far below these bounds.
"""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.errors import GroundwatchError

MAX_ITEMS = 100_000
"""Spans or log records of one body; exporters send 512 at a time, collectors some thousands."""

MAX_VALUES = 2_000_000
"""Protobuf fields of one body at all depths, or commas and brackets of a JSON body. An attribute
takes four of either, so a body of short attributes may have some 25 MiB."""

_MIN_SHORT = 500_000
"""Bodies with fewer short fields than this are not walked."""

_MAX_DEPTH = 100
"""The parser's bound too."""

_LENGTH_DELIMITED = 2
_SHORT_LENGTHS = bytes(range(32))
_Nested = dict[int, "_Nested"]


class TooManyValues(GroundwatchError):
    """A body holds more than may be held in memory at once."""

    def __init__(self, limit: int, what: str) -> None:
        super().__init__(
            f"the body holds more than {limit} {what}; send smaller batches (for OpenTelemetry "
            "SDKs OTEL_BSP_MAX_EXPORT_BATCH_SIZE)"
        )


def check_json(body: bytes) -> None:
    """Check the number of values of a JSON body.

    Raises:
        TooManyValues: it may hold more than `MAX_VALUES`.
    """
    if sum(map(body.count, (b",", b"{", b"["))) > MAX_VALUES:
        raise TooManyValues(MAX_VALUES, "values")


def check_protobuf(
    body: bytes, message: type[ExportTraceServiceRequest | ExportLogsServiceRequest]
) -> None:
    """Check the number of fields of an encoded message, whatever else is wrong with it.

    Raises:
        TooManyValues: there are more than `MAX_VALUES`.
    """
    # A field shorter than 32 bytes has its length in one byte below 32: few of those mean few
    # fields, and counting them takes a thousandth of the time of a walk.
    if len(body) - len(body.translate(None, _SHORT_LENGTHS)) >= _MIN_SHORT:
        _walk(body, _nested(message.DESCRIPTOR, {}))


def _nested(descriptor: Any, known: dict[str, _Nested]) -> _Nested:
    """Return by number the fields that hold messages, and the same of each."""
    if descriptor.full_name not in known:
        known[descriptor.full_name] = found = {}
        for field in descriptor.fields:
            if field.message_type is not None:
                found[field.number] = _nested(field.message_type, known)
    return known[descriptor.full_name]


def _walk(body: bytes, root: _Nested) -> None:
    """Count the fields of all messages. What is no protobuf is for the parser to say."""
    around: list[tuple[int, _Nested]] = []
    position, end, nested = 0, len(body), root
    fields = 0
    while True:
        while position >= end:
            if not around:
                return
            end, nested = around.pop()
        fields += 1
        if fields > MAX_VALUES:
            raise TooManyValues(MAX_VALUES, "values")
        tag, position = _varint(body, position, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or len(around) > _MAX_DEPTH:
            return
        if wire_type == _LENGTH_DELIMITED:
            length, position = _varint(body, position, end)
            if number in nested:
                around.append((end, nested))
                end, nested = min(position + length, end), nested[number]
            else:
                position += length
        elif wire_type == 0:
            _, position = _varint(body, position, end)
        else:
            position += {1: 8, 5: 4}.get(wire_type, end)


def _varint(body: bytes, position: int, end: int) -> tuple[int, int]:
    """Return a number and where it ends, at the latest at the end of the message."""
    value = shift = 0
    while position < end and shift < 70:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return value, end
