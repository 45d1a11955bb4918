"""User signals as apps post them, read into `Signal` values. Pure: no I/O, no clock."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from collector.errors import MalformedPayload
from collector.model import Signal, SignalKind

MAX_SIGNALS = 10_000
"""Signals in one body."""

SHOWN_PROBLEMS = 5
"""Problems spelled out where a whole body is refused."""

_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_FUTURE = timedelta(days=1)
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
SENTIMENT: dict[SignalKind, int] = {
    "thumbs_up": 1,
    "thumbs_down": -1,
    "copy": 1,
    "citation_click": 1,
    "rephrase": -1,
    "regenerate": -1,
    "abandon": -1,
    "push_back": -1,
    "repeated_clicks": 0,
    "comment": 0,
}
"""What a kind of signal says of the answer: good 1, bad -1, or neither."""
_SCALES = {"-1..1": (-1.0, 1.0), "0..1": (0.0, 1.0), "1..5": (1.0, 5.0), "1..10": (1.0, 10.0)}
_NEUTRAL = (0.4, 0.6)
"""The middle fifth of a scale says neither yes nor no: 3 of 1..5, 5 and 6 of 1..10."""


class ParsedSignals(NamedTuple):
    """What a body held: the readable signals, and one sentence for each that is not."""

    signals: list[Signal]
    rejected: list[str]


def parse_signals(body: bytes, received_at: datetime) -> ParsedSignals:
    """Read the JSON object or array of `POST /v1/signals`.

    A signal that cannot be read is left out with a sentence that names its index, the field and
    the cure; the others are kept.

    Args:
        body: the decompressed body.
        received_at: when it came, UTC; the time of signals that give none.

    Raises:
        MalformedPayload: not JSON of that shape, or no signal of it can be read.
    """
    signals: list[Signal] = []
    rejected: list[str] = []
    for index, item in enumerate(_items(body)):
        try:
            signals.append(_signal(_Body.model_validate(item), received_at))
        except ValidationError as err:
            rejected.append(f"[{index}] {_problems(err)}")
        except ValueError as err:
            rejected.append(f"[{index}] {err}")
    if rejected and not signals:
        more = len(rejected) - SHOWN_PROBLEMS
        tail = f"; and {more} more" if more > 0 else ""
        raise MalformedPayload("; ".join(rejected[:SHOWN_PROBLEMS]) + tail)
    return ParsedSignals(signals, rejected)


def target_of(signal: Signal) -> str:
    """Return the id the signal is about, the most specific one where it gives several."""
    targets = (signal.trace_id, signal.response_id, signal.message_id, signal.conversation_id)
    return next((target for target in targets if target is not None), "")


def _items(body: bytes) -> list[Any]:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as err:
        raise MalformedPayload(f"the body is not JSON: {err}; send an object or an array") from err
    if isinstance(decoded, dict):
        return [decoded]
    if not isinstance(decoded, list):
        raise MalformedPayload("the body must be a JSON object or an array of objects")
    if len(decoded) > MAX_SIGNALS:
        raise MalformedPayload(
            f"{len(decoded)} signals in one body; send at most {MAX_SIGNALS} at a time"
        )
    return decoded


def _trace_id(value: Any) -> Any:
    """Bring a trace id into the form traces have: 32 lower-case hex digits."""
    if value is None or value == "":
        return None
    normal = str(value).strip().lower().replace("-", "")
    if not _TRACE_ID.fullmatch(normal) or not normal.strip("0"):
        raise ValueError(
            "must be 32 hexadecimal digits, not all zero; send an id of your own as message_id"
        )
    return normal


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


def _absent_if_empty(value: Any) -> Any:
    return None if value == "" else value


_Id = Annotated[Annotated[str, Field(max_length=500)] | None, BeforeValidator(_absent_if_empty)]


class _Body(BaseModel):
    """One posted signal, field by field. `value` tells an explicit null from an absent one."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    signal_id: _Id = None
    trace_id: Annotated[str | None, BeforeValidator(_trace_id)] = None
    response_id: _Id = None
    message_id: _Id = None
    conversation_id: _Id = None
    kind: SignalKind
    value: StrictBool | StrictInt | StrictFloat | StrictStr | None = None
    scale: Literal["-1..1", "0..1", "1..5", "1..10"] | None = None
    comment: Annotated[str, Field(max_length=20_000)] | None = None
    document_id: _Id = None
    user_id: _Id = None
    occurred_at: Annotated[datetime | None, BeforeValidator(_time)] = None

    @model_validator(mode="after")
    def _is_about_something(self) -> _Body:
        if self.target is None:
            raise ValueError("trace_id: missing; or give response_id, message_id, conversation_id")
        return self

    @property
    def target(self) -> tuple[str, str] | None:
        """Field name and value of the most specific id."""
        for name in ("trace_id", "response_id", "message_id", "conversation_id"):
            if (value := getattr(self, name)) is not None:
                return name, value
        return None

    @property
    def revoked(self) -> bool:
        """Whether an earlier signal is taken back: `value` is there, and null."""
        return "value" in self.model_fields_set and self.value is None


def _signal(body: _Body, received_at: datetime) -> Signal:
    """Return the signal.

    Raises:
        ValueError: what is wrong with it, starting with the field.
    """
    if body.occurred_at is not None and not _EARLIEST < body.occurred_at < received_at + _FUTURE:
        raise ValueError("occurred_at: lies before 2000 or in the future; check unit and clock")
    if body.revoked and body.signal_id is None and body.user_id is None:
        raise ValueError("value: null takes a signal back; say which by signal_id or user_id")
    if body.kind == "comment" and not body.comment and not body.revoked:
        raise ValueError("comment: missing; a comment needs its text")
    value = _number(body)
    return Signal(
        signal_id=body.signal_id or _derived_id(body),
        kind=body.kind,
        occurred_at=body.occurred_at or received_at,
        received_at=received_at,
        trace_id=body.trace_id,
        response_id=body.response_id,
        message_id=body.message_id,
        conversation_id=body.conversation_id,
        value=value,
        raw_value=None if body.value is None else _raw(body.value),
        sentiment=0 if body.revoked else _sentiment(body, value),
        comment=body.comment or None,
        document_id=body.document_id,
        user_id=body.user_id,
        revoked=body.revoked,
    )


def _number(body: _Body) -> float | None:
    """Return the value as a number; None where there is none, or it is a word."""
    if body.value is None:
        if body.kind == "rating" and not body.revoked:
            raise ValueError("value: missing; a rating needs a number")
        return None
    try:
        number = float(body.value)
    except (ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number):
        return number
    if body.kind in ("rating", "thumbs_up", "thumbs_down"):
        raise ValueError(f"value: must be a finite number for {body.kind}")
    return None


def _raw(value: bool | int | float | str) -> str:  # noqa: FBT001 - a JSON value
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _sentiment(body: _Body, value: float | None) -> int:
    """Return -1, 0 or 1. A value of 0 is a real answer: a thumb that is not up is down."""
    if body.kind == "rating":
        return _rating_sentiment(0.0 if value is None else value, body.scale)
    if body.kind == "thumbs_up" and value is not None:
        return 1 if value > 0 else -1
    return SENTIMENT[body.kind]


def _rating_sentiment(value: float, scale: str | None) -> int:
    """Place a rating on its scale.

    Without one, up to 1 is read as 0..1 (0 and below are negative), up to 5 as 1..5, up to 10
    as 1..10.
    """
    if scale is None:
        if value < 0:
            scale = "-1..1"
        else:
            scale = "0..1" if value <= 1 else "1..5" if value <= 5 else "1..10"
    low, high = _SCALES[scale]
    if not low <= value <= high:
        raise ValueError(f"value: lies outside {scale}; give the scale as {', '.join(_SCALES)}")
    place = (value - low) / (high - low)
    return -1 if place < _NEUTRAL[0] else 1 if place > _NEUTRAL[1] else 0


def _derived_id(body: _Body) -> str:
    """Return the id of a signal that was sent without one, the same for the same signal.

    A user has one signal of a kind on a target (or a document of it): a later one replaces it.
    Unknown users cannot be told apart, so all of the content counts: a body sent again is the
    same signal, one that differs in anything is another user's.
    """
    if body.user_id is not None:
        identity: Any = [body.target, body.document_id, body.kind, body.user_id]
    else:
        identity = body.model_dump(mode="json")
    return blake2b(msgspec.json.encode(identity), digest_size=16).hexdigest()


def _problems(err: ValidationError) -> str:
    """Say what is wrong in words of ours, without what was sent: it may be a user's text."""
    found: dict[str, str] = {}
    for problem in err.errors(include_input=False, include_url=False):
        field = str(problem["loc"][0])[:60] if problem["loc"] else ""
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = f"unknown key; known are {', '.join(_Body.model_fields)}"
        elif problem["type"] == "model_type":
            message = "must be a JSON object"
        elif field == "kind":
            message = f"must be one of {', '.join(get_args(SignalKind))}"
        elif field == "value":
            message = "must be a number, true, false, a text or null"
        found.setdefault(field, f"{field}: {message}" if field else message)
    return "; ".join(found.values())
