"""Reading the values of a posted signal: ids, times, numbers, and what to say of bad ones."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from collector.errors import MalformedPayload
from collector.plain import plain

MAX_SIGNALS = 10_000
"""Signals in one body."""

_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_FUTURE = timedelta(days=1)
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SPAN_ID = re.compile(r"[0-9a-f]{16}")


def items_of(body: bytes) -> list[Any]:
    """Return the objects of a JSON object or array.

    Raises:
        MalformedPayload: not JSON of that shape, or too many.
    """
    decoded = decoded_json(body)
    if isinstance(decoded, dict):
        return [decoded]
    if not isinstance(decoded, list):
        raise MalformedPayload("the body must be a JSON object or an array of objects")
    return bounded(decoded)


def object_of(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body.

    Raises:
        MalformedPayload: not JSON of that shape.
    """
    decoded = decoded_json(body)
    if not isinstance(decoded, dict):
        raise MalformedPayload("the body must be a JSON object")
    return decoded


def decoded_json(body: bytes) -> Any:
    """Return any JSON.

    Raises:
        MalformedPayload: not JSON.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as err:
        raise MalformedPayload(f"the body is not JSON: {err}; send an object or an array") from err


def bounded(items: list[Any]) -> list[Any]:
    """Return the items.

    Raises:
        MalformedPayload: too many at once.
    """
    if len(items) > MAX_SIGNALS:
        raise MalformedPayload(
            f"{len(items)} signals in one body; send at most {MAX_SIGNALS} at a time"
        )
    return items


def hex_id(value: Any, *, span: bool = False) -> str | None:
    """Return a trace id (a span id) in the form traces have it, None where it is none.

    Clients write them with capitals, dashes or a prefix of 0x.
    """
    normal = str(value).strip().lower().removeprefix("0x").replace("-", "")
    pattern = _SPAN_ID if span else _TRACE_ID
    return normal if pattern.fullmatch(normal) and normal.strip("0") else None


def _trace_id(value: Any) -> Any:
    if value is None or value == "":
        return None
    if found := hex_id(value):
        return found
    raise ValueError(
        "must be 32 hexadecimal digits, not all zero; send an id of your own as message_id"
    )


def _span_id(value: Any) -> Any:
    if value is None or value == "":
        return None
    if found := hex_id(value, span=True):
        return found
    raise ValueError(
        "must be 16 hexadecimal digits, not all zero; send an id of your own as message_id"
    )


def _time(value: Any) -> Any:
    """Read an ISO 8601 time (UTC where it has no zone) or a Unix time in s, ms, µs or ns."""
    if value is None:
        return None
    problem = "must be an ISO 8601 time or a Unix time in seconds or milliseconds"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(problem)  # noqa: TRY004 - pydantic takes only this one as a finding
    try:
        number = float(value)
    except ValueError:
        try:
            time = datetime.fromisoformat(str(value))
            return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        except (ValueError, OverflowError):
            raise ValueError(problem) from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(problem)
    while abs(number) > 1e11:  # as seconds that would be past the year 5000
        number /= 1000
    return datetime.fromtimestamp(number, UTC)


def plausible(occurred_at: datetime | None, received_at: datetime, field: str) -> datetime:
    """Return when a signal occurred: when it came, where it does not say.

    Raises:
        ValueError: the time cannot be true.
    """
    if occurred_at is None:
        return received_at
    if not _EARLIEST < occurred_at < received_at + _FUTURE:
        raise ValueError(f"{field}: lies before 2000 or in the future; check unit and clock")
    return occurred_at


def _absent_if_empty(value: Any) -> Any:
    return None if value == "" else value


Id = Annotated[Annotated[str, Field(max_length=500)] | None, BeforeValidator(_absent_if_empty)]
TraceId = Annotated[str | None, BeforeValidator(_trace_id)]
SpanId = Annotated[str | None, BeforeValidator(_span_id)]
Time = Annotated[datetime | None, BeforeValidator(_time)]
Comment = Annotated[
    Annotated[str, Field(max_length=20_000)] | None, BeforeValidator(_absent_if_empty)
]
Value = StrictBool | StrictInt | StrictFloat | StrictStr | None


def finite(value: bool | float | str | None) -> float | None:  # noqa: FBT001 - a JSON value
    """Return a JSON value as a finite number; None where it is none, or a word."""
    if value is None:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def raw(value: bool | float | str | None) -> str | None:  # noqa: FBT001 - a JSON value
    """Return a value as it was sent: a text itself, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def digest(identity: Any) -> str:
    """Return an id that depends on nothing but what is given, any JSON."""
    return blake2b(msgspec.json.encode(identity), digest_size=16).hexdigest()


def problems(
    errors: Iterable[Any], known: Iterable[str], special: dict[str, str] | None = None
) -> str:
    """Say what pydantic found in words of ours, without what was sent: it may be a user's text.

    Args:
        errors: `ValidationError.errors`.
        known: field names as clients send them.
        special: what to say of a field, by its name.
    """
    found: dict[str, str] = {}
    for problem in errors:
        field = plain(str(problem["loc"][0]))[:60] if problem["loc"] else ""
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = f"unknown key; known are {', '.join(known)}"
        elif problem["type"] in ("model_type", "dict_type", "model_attributes_type"):
            message = "must be a JSON object"
        elif problem["type"] == "missing":
            message = "missing"
        elif special and field in special:
            message = special[field]
        found.setdefault(field, f"{field}: {message}" if field else message)
    return "; ".join(found.values())
