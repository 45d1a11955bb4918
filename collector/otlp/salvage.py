"""Reading a protobuf body around the items in it that cannot be parsed.

A batch with one bad string (a value cut in the middle of a UTF-8 character is common) does not
parse as a whole. The framing is walked by hand down to the single span, and the bad ones are
left out. Wire format: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

_RESOURCE_GROUPS = 1
_HEAD = 1
_CHILDREN = 2
_MAX_FIELDS = 1_000_000
"""Fields looked at in one body, about a second's work. Only hostile ones have more."""


def salvage(request: Any, body: bytes) -> int:
    """Fill `request` with all of `body` that can be read; return how many items were left out.

    Args:
        request: an empty ExportTraceServiceRequest or ExportLogsServiceRequest.
        body: its encoded form.

    Raises:
        DecodeError: the framing itself is broken, or there are too many fields.
    """
    request.Clear()
    groups = request.resource_spans if hasattr(request, "resource_spans") else request.resource_logs
    rejected = 0
    budget = iter(range(_MAX_FIELDS))
    for number, part in _fields(memoryview(body), budget):
        if number == _RESOURCE_GROUPS:
            rejected += _salvage_group(groups.add(), part, budget)
    return rejected


def _salvage_group(group: Any, data: memoryview, budget: Iterator[int]) -> int:
    """Fill a ResourceSpans or ResourceLogs."""
    scopes = group.scope_spans if hasattr(group, "scope_spans") else group.scope_logs
    rejected = 0
    for number, part in _fields(data, budget):
        if number == _HEAD:
            _parse(group.resource, part)
        elif number == _CHILDREN:
            rejected += _salvage_scope(scopes.add(), part, budget)
    return rejected


def _salvage_scope(scope: Any, data: memoryview, budget: Iterator[int]) -> int:
    """Fill a ScopeSpans or ScopeLogs."""
    records = scope.spans if hasattr(scope, "spans") else scope.log_records
    rejected = 0
    for number, part in _fields(data, budget):
        if number == _HEAD:
            _parse(scope.scope, part)
        elif number == _CHILDREN and not _parse(records.add(), part):
            del records[-1]
            rejected += 1
    return rejected


def _parse(message: Any, data: memoryview) -> bool:
    try:
        message.ParseFromString(bytes(data))
    except DecodeError:
        message.Clear()
        return False
    return True


def _fields(data: memoryview, budget: Iterator[int]) -> Iterator[tuple[int, memoryview]]:
    """Yield number and bytes of each length-delimited field; others are passed over."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        wire_type = tag & 7
        if tag >> 3 == 0:
            raise DecodeError("field number 0")
        if next(budget, None) is None:
            raise DecodeError("too many fields")
        if wire_type == 0:
            _, position = _varint(data, position)
        elif wire_type == 1:
            position += 8
        elif wire_type == 5:
            position += 4
        elif wire_type == 2:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise DecodeError("truncated field")
            yield tag >> 3, data[position : position + length]
            position += length
        else:
            raise DecodeError("unknown wire type")
    if position > len(data):
        raise DecodeError("truncated field")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise DecodeError("truncated number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DecodeError("number too long")
