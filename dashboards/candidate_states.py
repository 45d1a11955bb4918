"""The state of golden candidates: what their events, in order, come to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from collector.candidates import CandidateAction, EventKind
from collector.errors import Conflict, MalformedPayload

Row = Mapping[str, Any]

FRESH = "unreviewed"
"""State of a candidate that nobody has touched."""
DECIDED = ("accepted", "rejected", "exported")
_DONE = {
    "proposed": "saved a draft",
    "edited": "changed it",
    "accepted": "accepted it",
    "rejected": "rejected it",
    "exported": "exported it",
    "undone": "took the last step back",
}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One event, as people read it."""

    event: EventKind
    actor: str
    at: str


class CandidateState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a candidate stands.

    Attributes:
        candidate_id: also the id of the golden row.
        state: the last event that was not undone, `unreviewed` where there is none.
        version: how many events there are; whoever knows of fewer has to look again.
        actor: who did the last thing, None where nobody did.
        at: when, ISO.
        row: the golden row as it was last left, None before that.
        provenance: where the question comes from.
        trace_id: of the request behind it.
        history: all events, oldest first.
    """

    candidate_id: str
    state: str = FRESH
    version: int = 0
    actor: str | None = None
    at: str | None = None
    row: dict[str, Any] | None = None
    provenance: dict[str, Any] = {}
    trace_id: str | None = None
    history: list[Step] = []


def states_of(events: Iterable[Row]) -> dict[str, CandidateState]:
    """Return the state of each candidate.

    Args:
        events: rows of the query `candidate_events`, oldest first.
    """
    by_id: dict[str, list[Row]] = {}
    for event in events:
        by_id.setdefault(event["candidate_id"], []).append(event)
    return {name: _state(name, found) for name, found in by_id.items()}


def _state(candidate_id: str, events: list[Row]) -> CandidateState:
    standing: list[tuple[str, dict[str, Any]]] = []
    for event in events:
        if event["event"] == "undone":
            standing = standing[:-1]
        else:
            standing.append((event["event"], json.loads(event["payload"] or "{}")))
    rows = [payload["row"] for _, payload in standing if payload.get("row")]
    first = json.loads(events[0]["payload"] or "{}")
    return CandidateState(
        candidate_id=candidate_id,
        state=standing[-1][0] if standing else FRESH,
        version=len(events),
        actor=events[-1]["actor"],
        at=events[-1]["happened_at"].isoformat(),
        row=rows[-1] if rows else None,
        provenance=first.get("provenance") or {},
        trace_id=events[0]["trace_id"],
        history=[
            Step(event=e["event"], actor=e["actor"], at=e["happened_at"].isoformat())
            for e in events
        ],
    )


def check(action: CandidateAction, now: CandidateState) -> None:
    """Refuse an action that would run over somebody else's, or that makes no sense now.

    Raises:
        Conflict: something happened that whoever acts has not seen.
        MalformedPayload: it cannot be done in this state.
    """
    if action.seen != now.version:
        last = now.history[-1] if now.history else None
        told = f"{last.actor} {_DONE[last.event]} at {last.at[11:16]} UTC" if last else "it changed"
        raise Conflict(f"{told}; nothing was saved. Look at their version, then save yours again.")
    if action.event == "undone" and now.state in (FRESH, "exported"):
        gone = "it is in the golden file already: take it out there"
        raise MalformedPayload(gone if now.state == "exported" else "there is nothing to take back")
    if action.event != "undone" and now.state == "exported":
        raise MalformedPayload("it is in the golden file already: change it there")
    if action.event == "exported" and now.state != "accepted":
        raise MalformedPayload(f"only accepted candidates are exported; this one is {now.state}")
