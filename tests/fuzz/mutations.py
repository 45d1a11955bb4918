"""Changes to OTLP bodies that keep them bodies: what senders, limits and attackers make of them.

Flipped bytes mostly break the framing and are refused at the door. These change values, names,
ids and times inside it, so that what lies behind the door is reached.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_MAX_CHANGES = 4
_ODD_TEXTS = (
    "",
    " ",
    "null",
    "0",
    "-1",
    "1e999",
    "NaN",
    "{}",
    "[]",
    "[[]]",
    '{"',
    '"\\ud800"',
    "[1]",
    "[ID:0]",
    "__REDACTED__",
    "data:image/png;base64,AAAA",
    "{'a': [1, None]}",
    "[" * 1200,
    '{"a":' * 1200,
    "9" * 400,
    "user: a\nassistant: b",
    "a" * 5000,
)
_ODD_NUMBERS = (0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
_ODD_TIMES = (0, 1, 2**63 - 1, 2**64 - 1)
_CHARS = "{}[]\":,\\'0123456789eE+-.ntf \n\u20ac\U0001f600"


def mutated(data: bytes, seed: int) -> bytes | None:
    """Return a changed form of an encoded trace or logs request, None of other bytes.

    The same data and seed give the same bytes.
    """
    chance = random.Random(seed)
    for message in (ExportTraceServiceRequest(), ExportLogsServiceRequest()):
        try:
            message.ParseFromString(data)
        except DecodeError:
            continue
        records = _records(message)
        if records:
            for _ in range(chance.randint(1, _MAX_CHANGES)):
                chance.choice(_CHANGES)(chance, records)
            return message.SerializeToString()
    return None


def _records(request: Any) -> list[Any]:
    """Return the spans or log records of a request."""
    if isinstance(request, ExportTraceServiceRequest):
        return [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
    return [s for r in request.resource_logs for scope in r.scope_logs for s in scope.log_records]


def _change_value(chance: random.Random, records: list[Any]) -> None:
    pair = _pair(chance, records)
    if pair is None:
        return
    text = pair.value.string_value
    if text and chance.random() < 0.8:
        pair.value.string_value = _changed_text(chance, text)
        return
    kind = chance.randrange(6)
    if kind == 0:
        pair.value.string_value = chance.choice(_ODD_TEXTS)
    elif kind == 1:
        pair.value.int_value = chance.choice(_ODD_NUMBERS)
    elif kind == 2:
        pair.value.double_value = chance.choice((float("nan"), float("inf"), -0.0, 1e308))
    elif kind == 3:
        pair.value.bool_value = chance.random() < 0.5
    elif kind == 4:
        pair.value.bytes_value = chance.randbytes(3)
    else:
        pair.value.array_value.values.add().string_value = text or "x"


def _changed_text(chance: random.Random, text: str) -> str:
    """Return text cut, with a character changed, a part doubled, or replaced as a whole."""
    start, end = sorted(chance.choices(range(len(text) + 1), k=2))
    match chance.randrange(6):
        case 0:
            return text[:end]
        case 1:
            return text[:start] + chance.choice(_CHARS) + text[end:]
        case 2:
            return text[:start] + chance.choice(_CHARS) + text[start + 1 :]
        case 3:
            return text[:end] + text[start:end] + text[end:]
        case 4:
            return text[start:end]
        case _:
            return chance.choice(_ODD_TEXTS)


def _swap_values(chance: random.Random, records: list[Any]) -> None:
    one, other = _pair(chance, records), _pair(chance, records)
    if one is not None and other is not None and one is not other:
        kept = type(one.value).FromString(one.value.SerializeToString())
        one.value.CopyFrom(other.value)
        other.value.CopyFrom(kept)


def _rename(chance: random.Random, records: list[Any]) -> None:
    one, other = _pair(chance, records), _pair(chance, records)
    if one is None or other is None:
        return
    if chance.random() < 0.5:
        one.key = other.key
    else:
        digits = str(chance.choice((0, 1, 17, 999_999_999, -1)))
        one.key = ".".join(digits if p.isdigit() else p for p in one.key.split("."))


def _drop_attributes(chance: random.Random, records: list[Any]) -> None:
    attributes = chance.choice(records).attributes
    if attributes:
        start = chance.randrange(len(attributes))
        del attributes[start : chance.randint(start, len(attributes))]


def _drop_record(chance: random.Random, records: list[Any]) -> None:
    chance.choice(records).Clear()


def _change_ids(chance: random.Random, records: list[Any]) -> None:
    record, other = chance.choice(records), chance.choice(records)
    field = chance.choice(("trace_id", "span_id", "parent_span_id"))
    if hasattr(record, field):
        source = chance.choice(("trace_id", "span_id"))
        setattr(record, field, chance.choice((getattr(other, source), b"", b"\0" * 8, b"12345")))


def _change_times(chance: random.Random, records: list[Any]) -> None:
    record = chance.choice(records)
    names = [n for n in record.DESCRIPTOR.fields_by_name if n.endswith("time_unix_nano")]
    setattr(record, chance.choice(names), chance.choice(_ODD_TIMES))


def _change_name(chance: random.Random, records: list[Any]) -> None:
    record, other = chance.choice(records), chance.choice(records)
    field = "name" if hasattr(record, "name") else "event_name"
    setattr(record, field, getattr(other, field) or "chat x")


def _pair(chance: random.Random, records: list[Any]) -> Any:
    """Return one attribute of one record or of its events, None if it has none."""
    record = chance.choice(records)
    pairs = list(record.attributes)
    for event in getattr(record, "events", ()):
        pairs += event.attributes
    return chance.choice(pairs) if pairs else None


_CHANGES: tuple[Callable[[random.Random, list[Any]], None], ...] = (
    _change_value,
    _change_value,
    _change_value,
    _swap_values,
    _rename,
    _drop_attributes,
    _drop_record,
    _change_ids,
    _change_times,
    _change_name,
)
