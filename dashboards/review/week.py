"""The week view as plain data: the worst list with states, progress, and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from unicodedata import normalize

from dashboards.candidate_states import DECIDED, CandidateState
from dashboards.review.conversation import cut, reasons
from dashboards.windows import Window

Row = Mapping[str, Any]

STATES = ("open", "labelled", "draft", "accepted", "rejected", "exported")
"""How far people are with a conversation."""
_TOLD = ("trace_id", "claim", "labeller", "verdict", "cause", "note")
_QUESTION_CHARACTERS = 200
_VOLUME_CHANGE = 0.2
"""Share by which the number of requests has to change to be worth a line."""
_ENOUGH_TO_FORECAST = timedelta(days=1)


def listed(
    ranked: Iterable[Row], labels: Iterable[Row], candidates: Iterable[CandidateState]
) -> list[dict[str, Any]]:
    """Return the worst conversations, worst first, each with why it is here and its state.

    Args:
        ranked: rows of the query `worst`.
        labels: rows of the query `labels_of`, of their requests.
        candidates: that came of their requests.
    """
    said: dict[str, set[str]] = {}
    for label in labels:
        if not label["claim"] and label["verdict"]:
            said.setdefault(label["trace_id"], set()).add(label["labeller"])
    promoted = {c.trace_id: c for c in candidates}
    return [
        _item(
            row,
            {name for trace_id in row["trace_ids"] for name in said.get(trace_id, ())},
            [promoted[trace_id] for trace_id in row["trace_ids"] if trace_id in promoted],
        )
        for row in ranked
    ]


def _item(row: Row, labellers: set[str], candidates: list[CandidateState]) -> dict[str, Any]:
    return {
        "conversation_id": row["conversation"],
        "worst_trace_id": row["worst_trace_id"],
        "question": cut(row["question"], _QUESTION_CHARACTERS),
        "reasons": reasons(row),
        "badness": float(row["badness"]),
        "segment": row["segment"] or "unknown",
        "started_at": row["first_at"].isoformat(),
        "requests": int(row["requests"]),
        "signals": int(row["signals_total"]),
        "stands_for": round(1.0 / row["probability"], 1) if row["sampled"] else None,
        "state": _state(labellers, candidates),
        "labellers": sorted(labellers),
    }


def standing(
    row: Row, labels: Iterable[Row], candidates: Iterable[CandidateState]
) -> dict[str, Any]:
    """Return the state of one conversation, and what people said of its answers and claims.

    Args:
        row: of the query `worst`.
        labels: rows of the query `labels_of`; those of other requests are left out.
        candidates: the same.
    """
    given = [
        {key: label[key] for key in _TOLD}
        for label in labels
        if label["trace_id"] in row["trace_ids"] and any(label[key] for key in _TOLD[3:])
    ]
    own = [candidate for candidate in candidates if candidate.trace_id in row["trace_ids"]]
    labellers = {one["labeller"] for one in given if not one["claim"] and one["verdict"]}
    return {"state": _state(labellers, own), "labels": given}


def _state(labellers: set[str], candidates: Sequence[CandidateState]) -> str:
    found = {candidate.state for candidate in candidates}
    for state in ("exported", "accepted", "rejected"):
        if state in found:
            return state
    if found & {"proposed", "edited"}:
        return "draft"
    return "labelled" if labellers else "open"


def is_done(item: Row) -> bool:
    """Whether somebody said what the answer was like, or decided on the candidate."""
    return bool(item["labellers"]) or item["state"] in DECIDED


def progress(items: Sequence[Row]) -> dict[str, int]:
    """Return how many conversations of the list are done, and how many there are."""
    return {"done": sum(map(is_done, items)), "all": len(items)}


def matching(items: Iterable[Row], texts: Iterable[Row], words: str) -> list[Any]:
    """Return the conversations that hold all of the words.

    Args:
        items: as returned by `listed`.
        texts: the rows they were made of.
        words: looked for in questions and answers and ids, without regard to case.
    """
    wanted = _folded(words).split()
    return [
        item
        for item, row in zip(items, texts, strict=True)
        if all(word in _searched(row) for word in wanted)
    ]


def _searched(row: Row) -> str:
    ids = [row["conversation"], *row["trace_ids"]]
    texts = [*row["questions"], row["answer"], row["segment"], *ids]
    return _folded(" ".join(text for text in texts if text))


def _folded(text: str) -> str:
    """Return text as it is compared: an é is an é, however it was typed (Unicode UAX 15)."""
    return normalize("NFKC", text).casefold()


def changes(now: Row, before: Row) -> list[str]:
    """Say what is different from the window before, one line each.

    A segment is named only where both intervals are known and do not meet, so that chance is
    rarely told as news.

    Args:
        now: as returned by `Reports.estimates`.
        before: as returned by `Reports.levels`, of the window before.
    """
    earlier = {row["segment"]: row for row in before["segments"]}
    lines = [
        line
        for row in now["segments"]
        if row["segment"] in earlier
        and (line := _moved(row["segment"], row, earlier[row["segment"]]))
    ]
    if line := _moved("all segments", now["total"], before["total"]):
        lines.insert(0, line)
    known = {row["segment"] for row in now["segments"]}
    if before["total"]["requests"]:
        lines += [f"{name}: new this time" for name in sorted(known - earlier.keys())]
        lines += [f"{name}: no requests this time" for name in sorted(earlier.keys() - known)]
    lines += [_judge_change(change) for change in now["judge_changes"]]
    return lines + _volume(now["total"]["requests"], before["total"]["requests"])


def _judge_change(change: Row) -> str:
    """Say when another judge took over, and whether only its prompts are others.

    A judging model's fingerprint ends with the digest of its prompts and a version.
    """
    at = f"{change['at'][:16].replace('T', ' ')} UTC: {change['fingerprint']}"
    old, new = (change[key].split("/") for key in ("previous", "fingerprint"))
    same = len(old) == len(new) > 3 and old[:-2] == new[:-2] and old[-1] == new[-1]
    return f"the judge has other prompts since {at}" if same else f"another judge since {at}"


def deployed(releases: Iterable[Row], window: Window) -> list[str]:
    """Say which versions of an assistant are new in a window, one line each.

    The first version that was ever seen of a service is where monitoring began, and no change.

    Args:
        releases: rows of the query `releases`, earliest first.
        window: to look at.
    """
    known: set[str] = set()
    lines = []
    for row in releases:
        if row["service"] in known and window.since <= row["first_seen"] < window.until:
            at = f"{row['first_seen']:%Y-%m-%d %H:%M} UTC"
            lines.append(f"{row['service']}: version {row['version']} since {at}")
        known.add(row["service"])
    return lines


def forecast(usd: float, window: Window, now: datetime | None) -> float | None:
    """Return what a window will have cost at the pace so far; None where it is over or new."""
    if now is None or now >= window.until or now - window.since < _ENOUGH_TO_FORECAST:
        return None
    return usd * ((window.until - window.since) / (now - window.since))


def _moved(name: str, now: Row, before: Row) -> str | None:
    if None in (now["estimate"], now["low"], before["estimate"], before["low"]):
        return None
    if now["low"] <= before["high"] and before["low"] <= now["high"]:
        return None
    word = "rose" if now["estimate"] > before["estimate"] else "fell"
    return f"{name}: {word} from {before['estimate']:.3f} to {now['estimate']:.3f}"


def _volume(now: int, before: int) -> list[str]:
    if not before or abs(now - before) < _VOLUME_CHANGE * before:
        return []
    return [f"requests: {now} after {before}"]
