"""Which request a signal is about, and what several messages of one signal say together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from collector.config import FeedbackScale
from collector.model import INFERRED, Signal, StoredRequest
from collector.ports import SIGNALS, Entry
from collector.signals.meaning import Meaning, meaning_of

CONVERSATION_REACH = timedelta(hours=1)
"""A signal on a conversation as a whole is about the requests that began within this time of it."""

_CLOCK_SKEW = timedelta(minutes=1)
_DIRECT = ("trace_id", "span_id", "response_id", "message_id")
Key = tuple[str, str]


def target_of(signal: Signal) -> str:
    """Return the id the signal is about, the one that reaches furthest where it gives several.

    All signals about one thing have the same, so it is what the journal is keyed by.
    """
    targets = (getattr(signal, field) for field in (*_DIRECT, "conversation_id"))
    return next((target for target in targets if target is not None), "")


def signal_entries(signals: Iterable[Signal]) -> list[Entry]:
    """Return the journal entries of signals, one for each thing they are about."""
    by_target: dict[str, list[Signal]] = {}
    for signal in signals:
        by_target.setdefault(target_of(signal), []).append(signal)
    return [
        Entry(SIGNALS, "signals", target, msgspec.json.encode(about))
        for target, about in by_target.items()
    ]


def keys_of(signal: Signal) -> list[Key]:
    """Return the ids of a request that this signal names, as (field, id)."""
    return [(field, value) for field in _DIRECT if (value := getattr(signal, field)) is not None]


def keys_of_request(row: StoredRequest) -> list[Key]:
    """Return the ids under which signals can name this request, as (field, id)."""
    request = row.request
    return [
        ("trace_id", request.trace_id),
        *(("span_id", span_id) for span_id in row.span_ids),
        *(("response_id", response_id) for response_id in request.response_ids),
        *([("message_id", request.message_id)] if request.message_id is not None else []),
    ]


def complained_about(
    rows: Iterable[StoredRequest], complaints: Iterable[Signal]
) -> list[StoredRequest]:
    """Return those of the requests that one of the signals is about.

    A function of request and signal alone: which of them came first makes no difference.
    """
    named: set[Key] = set()
    conversations: dict[str, list[Signal]] = {}
    for signal in complaints:
        keys = keys_of(signal)
        named.update(keys)
        if not keys and signal.conversation_id is not None:
            conversations.setdefault(signal.conversation_id, []).append(signal)
    return [
        row
        for row in rows
        if not named.isdisjoint(keys_of_request(row))
        or any(_reaches(s, row) for s in conversations.get(row.request.conversation_id or "", ()))
    ]


def _reaches(signal: Signal, row: StoredRequest) -> bool:
    started = row.request.started_at
    if started is None:
        return False
    return started - _CLOCK_SKEW <= signal.occurred_at <= started + CONVERSATION_REACH


def is_complaint(signal: Signal) -> bool:
    """Tell whether a user said that something was not right. What was only inferred is no word."""
    return signal.sentiment < 0 and not signal.revoked and signal.source != INFERRED


def may_be_changed(signal: Signal) -> bool:
    """Tell whether a signal is of a client whose later messages may change single fields of it."""
    return signal.source == "langsmith"


def is_change(signal: Signal) -> bool:
    """Tell whether a signal only changes fields of an earlier one (`PATCH` of LangSmith)."""
    return signal.source == "langsmith" and not signal.revoked and target_of(signal) == ""


def together(messages: Sequence[Signal]) -> Signal:
    """Return what all messages of one signal id say: the last word, completed by those before.

    The same for any order of the messages, and for any of them repeated.

    Args:
        messages: at least one.
    """
    latest, *later = sorted(messages, key=lambda m: (m.occurred_at, m.received_at))
    for message in later:
        partial = message.revoked or is_change(message)
        latest = _completed(message, latest) if partial else message
    return latest


def _completed(change: Signal, before: Signal) -> Signal:
    """Return the earlier signal with what the change says anew.

    What was taken back stays so until a value is given again.
    """
    said = change.raw_value is not None
    revoked = change.revoked or (before.revoked and not said)
    meaning = _meaning(change, before) if said else Meaning(before.kind, before.sentiment)
    return msgspec.structs.replace(
        before,
        occurred_at=change.occurred_at,
        received_at=change.received_at,
        kind=meaning.kind,
        sentiment=0 if revoked else meaning.sentiment,
        scale=meaning.scale or before.scale,
        value=change.value if said else before.value,
        raw_value=change.raw_value if said else before.raw_value,
        comment=change.comment or before.comment,
        revoked=revoked,
    )


def _meaning(change: Signal, before: Signal) -> Meaning:
    name = before.name or ""
    thumb = before.kind in ("thumbs_up", "thumbs_down")
    named: dict[str, FeedbackScale] = {name: "thumbs"} if thumb else {}
    label = change.raw_value if change.value is None else None
    try:
        return meaning_of(name, change.value, label, named, None if thumb else before.scale)
    except ValueError:  # off its scale: kept, but it says neither yes nor no
        return Meaning("rating", 0)
