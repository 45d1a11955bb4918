"""What happens to a candidate of the golden set: the event, and how JSON becomes one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from collector.errors import MalformedPayload
from collector.labels import MAX_LABELLER_CHARACTERS
from collector.plain import plain

EventKind = Literal["proposed", "edited", "accepted", "rejected", "exported", "undone"]
EVENT_KINDS: tuple[str, ...] = get_args(EventKind)
_MAX_TEXT = 20_000
_MAX_ITEMS = 50


class CandidateRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a person makes of a candidate: the fields of a golden row that they can write."""

    question: str
    reference_answer: str | None = None
    gold_sources: list[str] = []
    quotes: list[str] = []
    segment: str | None = None
    answerable: bool = True


class CandidateEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody did to a candidate.

    Attributes:
        candidate_id: also the id of the golden row.
        happened_at: when.
        event_id: makes a repeated write harmless.
        event: of `EVENT_KINDS`; `undone` takes back the event before it.
        actor: who did it.
        trace_id: of the request that the question comes from.
        payload: `row` as of then (see `CandidateRow`), `provenance`, `file` it was exported to.
    """

    candidate_id: str
    happened_at: datetime
    event_id: str
    event: EventKind
    actor: str
    trace_id: str | None = None
    payload: dict[str, Any] = {}


class CandidateAction(msgspec.Struct, frozen=True, kw_only=True):
    """What a page or a program asks for.

    Attributes:
        event: what is to happen.
        actor: who asks.
        seen: how many events of the candidate they know of; more there are, nothing is done.
        row: the golden row as they leave it.
        trace_id: of the request behind it.
        file: where it was exported to.
    """

    event: EventKind
    actor: str
    seen: int
    row: CandidateRow | None = None
    trace_id: str | None = None
    file: str | None = None


def parse_action(item: Any) -> CandidateAction:
    """Check an action on a candidate as it comes from a page or a program.

    Raises:
        MalformedPayload: names the field and the cure.
    """
    if not isinstance(item, Mapping):
        raise MalformedPayload("must be an object")
    try:
        action = msgspec.convert(item, CandidateAction)
    except msgspec.ValidationError as err:
        raise MalformedPayload(str(err)) from err
    action = msgspec.structs.replace(action, actor=actor_of(action.actor))
    if action.event in ("proposed", "edited", "accepted") and action.row is None:
        raise MalformedPayload(f"row: {action.event} needs the golden row")
    if action.row is not None:
        _check(action.row)
    if action.event == "accepted" and action.row is not None:
        _check_whole(action.row)
    return action


def actor_of(name: Any) -> str:
    """Return the name of who acts, as it is kept.

    Raises:
        MalformedPayload: it is none.
    """
    told = plain(name) if isinstance(name, str) else ""
    if not told:
        raise MalformedPayload("actor: must not be empty; say who you are")
    if len(told) > MAX_LABELLER_CHARACTERS:
        raise MalformedPayload(f"actor: is longer than {MAX_LABELLER_CHARACTERS} characters")
    return told


def _check(row: CandidateRow) -> None:
    for field in ("question", "reference_answer", "segment"):
        if len(getattr(row, field) or "") > _MAX_TEXT:
            raise MalformedPayload(f"{field}: is longer than {_MAX_TEXT} characters")
    for field in ("gold_sources", "quotes"):
        items = getattr(row, field)
        if len(items) > _MAX_ITEMS or any(len(item) > _MAX_TEXT for item in items):
            raise MalformedPayload(
                f"{field}: at most {_MAX_ITEMS}, each of {_MAX_TEXT} characters at most"
            )
        if not all(item.strip() for item in items):
            raise MalformedPayload(f"{field}: holds an empty text; leave it out")
    if not row.question.strip():
        raise MalformedPayload("question: must not be empty")


def _check_whole(row: CandidateRow) -> None:
    """Refuse to accept what no golden run could use."""
    if row.answerable and not (row.reference_answer or "").strip():
        raise MalformedPayload(
            "reference_answer: write the right answer, or mark the question as not answerable"
        )
    if row.answerable and not row.gold_sources:
        raise MalformedPayload(
            "gold_sources: name a page that holds the answer, or mark the question as "
            "not answerable"
        )
