"""OTLP JSON to OTLP protobuf messages, reading more than the specification allows.

The protobuf library's own JSON reader takes ids for base64, and gives the whole body up for one
odd field; real senders need more patience (see the module docstring of `collector.otlp`).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from collector.errors import MalformedPayload
from collector.otlp.ids import SPAN_ID_BYTES, TRACE_ID_BYTES, id_of_json

MAX_DEPTH = 32
"""Nested attribute values beyond this are refused: the protobuf form could not be read back."""

_INT64 = 2**63
_UINT64 = 2**64
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUS_CODES = ("UNSET", "OK", "ERROR")


class Unreadable(ValueError):
    """One span or log record cannot be read. The message names the field, never its content."""


def parse_json(body: bytes) -> Any:
    """Return the JSON value of a body; NaN, lone surrogates and bad UTF-8 are tolerated.

    Raises:
        MalformedPayload: this is no JSON, or it is nested too deep.
    """
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return json.loads(body.decode("utf-8-sig", "replace"), parse_int=_parse_int)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as err:
        raise MalformedPayload(
            f"body: not JSON at line {err.lineno} column {err.colno}; send OTLP JSON, or "
            "protobuf with content type application/x-protobuf"
        ) from None


def clean_json(value: Any, depth: int = 64) -> Any:
    """Return a JSON value that can be stored: valid Unicode, numbers of at most 64 bits.

    What is nested deeper than `depth` levels is left out.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int) and not -_INT64 <= value < _UINT64:
        return float(value) if abs(value) < 2**1000 else math.copysign(math.inf, value)
    if isinstance(value, dict | list) and depth <= 0:
        return None
    if isinstance(value, dict):
        return {_text(key): clean_json(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [clean_json(item, depth - 1) for item in value]
    return value


def _too_deep() -> MalformedPayload:
    return MalformedPayload("body: JSON is nested too deep; send attribute values flatter")


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) < 40 else float(digits[:400])


def member(value: Any, name: str) -> Any:
    """Return a member of a JSON object by its camelCase name, also if spelled in snake_case."""
    if not isinstance(value, Mapping):
        return None
    found = value.get(name)
    if found is None:
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
        found = value.get(snake) if snake != name else None
    return found


def items(value: Any, name: str) -> list[Any]:
    """Return a member that must be a list.

    Raises:
        MalformedPayload: it is something else.
    """
    found = member(value, name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise MalformedPayload(f"{name}: must be a JSON array")
    return found


def fill_resource(target: resource_pb2.Resource, value: Any) -> None:
    """Read a resource; attributes that cannot be read are left out."""
    for key, item in _attributes(member(value, "attributes")):
        try:
            filled = common_pb2.AnyValue()
            _fill_value(filled, item, MAX_DEPTH)
        except Unreadable:
            continue
        target.attributes.add(key=key, value=filled)


def scope_name(value: Any) -> str:
    """Return the name of a scope object, "" if it has none."""
    return _text(member(value, "name") or "")


def span_of(value: Any) -> trace_pb2.Span:
    """Read one span.

    Raises:
        Unreadable: it has no usable id, or a value is nested too deep.
    """
    span = trace_pb2.Span(
        trace_id=_required_id(value, "traceId", TRACE_ID_BYTES),
        span_id=_required_id(value, "spanId", SPAN_ID_BYTES),
        parent_span_id=id_of_json(member(value, "parentSpanId"), SPAN_ID_BYTES) or b"",
        trace_state=_text(member(value, "traceState") or ""),
        name=_text(member(value, "name") or ""),
        kind=_enum(member(value, "kind"), "SPAN_KIND_", _KINDS),
        start_time_unix_nano=_time(member(value, "startTimeUnixNano")),
        end_time_unix_nano=_time(member(value, "endTimeUnixNano")),
        dropped_attributes_count=_count(member(value, "droppedAttributesCount")),
    )
    _fill_attributes(span.attributes, member(value, "attributes"))
    events = member(value, "events")
    for item in events if isinstance(events, list) else []:
        event = span.events.add(
            name=_text(member(item, "name") or ""),
            time_unix_nano=_time(member(item, "timeUnixNano")),
        )
        _fill_attributes(event.attributes, member(item, "attributes"))
    status = member(value, "status")
    if isinstance(status, Mapping) and status:
        span.status.code = _enum(status.get("code"), "STATUS_CODE_", _STATUS_CODES)
        span.status.message = _text(status.get("message") or "")
    return span


def log_record_of(value: Any) -> logs_pb2.LogRecord:
    """Read one log record; an id that cannot be read counts as none.

    Raises:
        Unreadable: it is no object, or a value is nested too deep.
    """
    if not isinstance(value, Mapping):
        raise Unreadable("logRecords: must hold JSON objects")
    record = logs_pb2.LogRecord(
        trace_id=id_of_json(member(value, "traceId"), TRACE_ID_BYTES) or b"",
        span_id=id_of_json(member(value, "spanId"), SPAN_ID_BYTES) or b"",
        time_unix_nano=_time(member(value, "timeUnixNano")),
        observed_time_unix_nano=_time(member(value, "observedTimeUnixNano")),
        event_name=_text(member(value, "eventName") or ""),
    )
    body = member(value, "body")
    if body is not None:
        _fill_value(record.body, body, MAX_DEPTH)
    _fill_attributes(record.attributes, member(value, "attributes"))
    return record


def _required_id(value: Any, name: str, size: int) -> bytes:
    found = id_of_json(member(value, name), size)
    if not found:
        raise Unreadable(f"{name}: must be {2 * size} hex digits, not all zero")
    return found


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield _text(key), item
    elif isinstance(value, list):
        for pair in value:
            if isinstance(pair, Mapping) and "key" in pair:
                yield _text(pair["key"]), pair.get("value")


def _fill_attributes(target: Any, value: Any, depth: int = MAX_DEPTH) -> None:
    """Add the pairs of a JSON list (or object) to a repeated KeyValue field."""
    for key, item in _attributes(value):
        _fill_value(target.add(key=key).value, item, depth)


def _fill_value(target: common_pb2.AnyValue, value: Any, depth: int) -> None:
    if depth <= 0:
        raise Unreadable(f"attributes: a value is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(value, Mapping):
        _fill_plain(target, value, depth)
        return
    for name, item in value.items():
        fill = _FILLERS.get(name)
        if fill is not None and item is not None:
            fill(target, item, depth)
            return


def _fill_plain(target: common_pb2.AnyValue, value: Any, depth: int) -> None:
    """Read a value that a sender did not wrap into an AnyValue object."""
    if isinstance(value, str):
        target.string_value = _text(value)
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        _fill_int(target, value, depth)
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, list):
        _fill_array(target, value, depth)


def _fill_string(target: common_pb2.AnyValue, value: Any, _depth: int) -> None:
    target.string_value = _text(value)


def _fill_bool(target: common_pb2.AnyValue, value: Any, _depth: int) -> None:
    target.bool_value = value if isinstance(value, bool) else str(value).lower() in ("true", "1")


def _fill_int(target: common_pb2.AnyValue, value: Any, _depth: int) -> None:
    number = _integer(value)
    if number is None:
        target.string_value = _text(value)
    elif -_INT64 <= number < _INT64:
        target.int_value = number
    else:
        target.double_value = math.copysign(math.inf, number) if abs(number) > 2**1000 else number


def _fill_double(target: common_pb2.AnyValue, value: Any, _depth: int) -> None:
    try:
        target.double_value = float(value)
    except (TypeError, ValueError, OverflowError):
        target.string_value = _text(value)


def _fill_bytes(target: common_pb2.AnyValue, value: Any, _depth: int) -> None:
    if not isinstance(value, str):
        target.bytes_value = id_bytes(value)
        return
    try:
        target.bytes_value = base64.b64decode(value, validate=False)
    except (binascii.Error, ValueError):
        target.string_value = _text(value)


def id_bytes(value: Any) -> bytes:
    """Return the bytes of a list of byte values or a Node.js Buffer, b"" for anything else."""
    data = value.get("data") if isinstance(value, Mapping) else value
    try:
        return bytes(data) if isinstance(data, list) else b""
    except (TypeError, ValueError):
        return b""


def _fill_array(target: common_pb2.AnyValue, value: Any, depth: int) -> None:
    values: Any = value if isinstance(value, list) else member(value, "values")
    target.array_value.SetInParent()
    for item in values if isinstance(values, list) else []:
        _fill_value(target.array_value.values.add(), item, depth - 1)


def _fill_map(target: common_pb2.AnyValue, value: Any, depth: int) -> None:
    values: Any = value if isinstance(value, list) else member(value, "values")
    target.kvlist_value.SetInParent()
    _fill_attributes(target.kvlist_value.values, values, depth - 1)


_FILLERS = {
    "stringValue": _fill_string,
    "string_value": _fill_string,
    "boolValue": _fill_bool,
    "bool_value": _fill_bool,
    "intValue": _fill_int,
    "int_value": _fill_int,
    "doubleValue": _fill_double,
    "double_value": _fill_double,
    "bytesValue": _fill_bytes,
    "bytes_value": _fill_bytes,
    "arrayValue": _fill_array,
    "array_value": _fill_array,
    "kvlistValue": _fill_map,
    "kvlist_value": _fill_map,
}


def _text(value: Any) -> str:
    """Return valid Unicode; half a surrogate pair becomes the replacement character."""
    text = value if isinstance(value, str) else _scalar_text(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    try:
        return json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        return ""


def _integer(value: Any) -> int | None:
    """Return a 64-bit number sent as number, decimal text, or {low, high} halves."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    if isinstance(value, str):
        try:
            return int(value) if len(value) < 40 else None
        except ValueError:
            return None
    low, high = member(value, "low"), member(value, "high")
    if isinstance(low, int) and isinstance(high, int):
        return ((high & 0xFFFFFFFF) << 32 | (low & 0xFFFFFFFF)) - (_UINT64 if high < 0 else 0)
    return None


def _time(value: Any) -> int:
    """Return Unix nanoseconds, 0 for none."""
    number = _integer(value)
    return number if number is not None and 0 < number < _UINT64 else 0


def _count(value: Any) -> int:
    number = _integer(value)
    return min(number, 2**32 - 1) if number is not None and number > 0 else 0


def _enum(value: Any, prefix: str, names: Iterable[str]) -> Any:
    """Return an enum number given as number, digits or name; 0 for an unknown one."""
    known = list(names)
    if isinstance(value, str):
        name = value.upper().removeprefix(prefix)
        if name in known:
            return known.index(name)
    number = _integer(value)
    return number if number is not None and 0 <= number < len(known) else 0
