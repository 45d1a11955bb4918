"""The conversation view as plain data: evidence in its documents, labels, signals in time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from dashboards.candidate_states import CandidateState
from dashboards.review.conversation import turn_of

Row = Mapping[str, Any]

_MOST_CHARACTERS = 1_500_000
"""Of all documents on a page together; the worst turn is served first."""
_CITATION = re.compile(r"\[(?:\^|doc(?:ument)?\s*)?(\d{1,4})\]", re.IGNORECASE)
_LONGEST_QUOTE = 2_000


def turns_of(
    rows: Sequence[Row],
    labels: Iterable[Row],
    candidates: Iterable[CandidateState],
    *,
    reviewer: str,
    focus: str = "",
    blind: bool = False,
) -> list[dict[str, Any]]:
    """Return the turns of a conversation as the page shows them.

    Args:
        rows: as returned by `conversation_turns`, oldest first.
        labels: rows of the query `labels_of`, of their requests.
        candidates: that came of their requests.
        reviewer: whose labels are their own; "" for nobody.
        focus: trace id of the turn to open; else the worst of them is.
        blind: leave out what the judge says of a claim until the reviewer has labelled it.
    """
    given: dict[tuple[str, str], list[Row]] = {}
    for label in labels:
        if label["verdict"] or label["cause"] or label["note"]:
            given.setdefault((label["trace_id"], label["claim"]), []).append(label)
    by_trace = {candidate.trace_id: candidate for candidate in candidates}
    turns = [{**turn_of(row), **_beside(row, given, reviewer)} for row in rows]
    for turn in turns:
        turn["candidate"] = by_trace.get(turn["trace_id"])
        _hide(turn, blind=blind)
    if turns:
        max(turns, key=lambda turn: (turn["trace_id"] == focus, turn["trouble"]))["open"] = True
    left = _MOST_CHARACTERS
    for turn in sorted(turns, key=lambda turn: not turn["open"]):
        left = _with_evidence(turn, left)
    return turns


def _beside(row: Row, given: Mapping[tuple[str, str], list[Row]], reviewer: str) -> dict[str, Any]:
    """Return what is shown of a request beside what the report holds."""
    trace_id = row["trace_id"]
    claims = [
        {**claim, "number": number, **_labels(given.get((trace_id, claim["text"]), []), reviewer)}
        for number, claim in enumerate(map(dict, row["claims"]), 1)
    ]
    verdicts = [claim["verdict"] for claim in claims]
    complaints = sum(1 for signal in row["signals"] if signal["complaint"])
    return {
        "claims": claims,
        "labels": _labels(given.get((trace_id, ""), []), reviewer),
        "stages": [dict(stage) for stage in row["stages"]],
        "service": row["service"],
        "segment": row["segment"],
        "model": row["model"],
        "latency_ms": row["latency_ms"],
        "error": row["error_message"] or row["error_type"] if row["status"] == "error" else None,
        "answer_parts": _linked(row["answer"], [d["rank"] for d in row["documents"]]),
        "stands_for": round(1.0 / row["probability"], 1) if row["sampled"] else None,
        "trouble": 2 * verdicts.count("CONTRADICTED") + verdicts.count("NOT_FOUND") + complaints,
        "open": False,
    }


def _labels(found: Iterable[Row], reviewer: str) -> dict[str, Any]:
    labels = [{**label, "labelled_at": label["labelled_at"].isoformat()} for label in found]
    own = next((label for label in labels if label["labeller"] == reviewer), None)
    return {"own": own, "others": [label for label in labels if label is not own]}


def _hide(turn: dict[str, Any], *, blind: bool) -> None:
    for claim in turn["claims"]:
        claim["hidden"] = blind and claim["own"] is None
        if claim["hidden"]:
            claim |= {"verdict": None, "quote": None, "document_rank": None, "note": None}
            claim["others"] = []
    turn["hidden"] = any(claim["hidden"] for claim in turn["claims"])
    if turn["hidden"]:
        turn |= {"score": None, "diagnosis": None}
    if blind and turn["labels"]["own"] is None:
        turn["labels"]["others"] = []


def _linked(answer: str | None, ranks: Sequence[int]) -> list[dict[str, Any]]:
    """Split an answer at its citations; `rank` is set on those that point to a document."""
    parts: list[dict[str, Any]] = []
    end = 0
    for found in _CITATION.finditer(answer or ""):
        if int(found[1]) in ranks:
            parts.append({"text": (answer or "")[end : found.start()], "rank": None})
            parts.append({"text": found[0], "rank": int(found[1])})
            end = found.end()
    return [*parts, {"text": (answer or "")[end:], "rank": None}]


def _with_evidence(turn: dict[str, Any], left: int) -> int:
    """Mark the quotes in the documents of a turn; return how many characters may still follow."""
    for document in turn["documents"]:
        text = document["text"]
        claims = [c for c in turn["claims"] if c["document_rank"] == document["rank"]]
        document["claims"] = [claim["number"] for claim in claims]
        document["left_out"] = text is not None and len(text) > left
        if text is None or document["left_out"]:
            document["parts"] = []
            continue
        left -= len(text)
        document["parts"] = marked(text, [(c["number"], c["quote"]) for c in claims if c["quote"]])
    return left


def marked(text: str, quotes: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """Split a text where quotes begin and end.

    Args:
        text: of a document.
        quotes: number of a claim and what it quotes; a quote is found in spite of its case and
            its white space.

    Returns:
        Parts in order: `text`, and `claims`, the numbers of those whose quote covers it.
    """
    wanted = list(quotes)
    folded, places = _folded(text) if wanted else ("", [])
    spans = []
    for number, quote in wanted:
        words, _ = _folded(" ".join(quote[:_LONGEST_QUOTE].split()))
        if words and (at := folded.find(words)) >= 0:
            spans.append((number, places[at], places[at + len(words) - 1] + 1))
    cuts = sorted({0, len(text), *(edge for _, start, end in spans for edge in (start, end))})
    return [
        {"text": text[a:b], "claims": [n for n, start, end in spans if start <= a and b <= end]}
        for a, b in pairwise(cuts)
    ]


def _folded(text: str) -> tuple[str, list[int]]:
    """Return text in lower case with single spaces, and where each of its characters came from.

    What is looked for in it is found in linear time, whatever somebody wrote to make it long.
    """
    found, places = [], []
    for place, char in enumerate(text):
        if not char.isspace():
            lower = char.lower()
            found.append(lower if len(lower) == 1 else char)
        elif found and found[-1] != " ":
            found.append(" ")
        else:
            continue
        places.append(place)
    return "".join(found), places


def timeline(rows: Sequence[Row], comments: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Return questions and signals of a conversation in order of time, each signal once.

    Args:
        rows: as returned by `conversation_turns`, oldest first.
        comments: of the signals, by their ids.
    """
    asked = [
        {"at": row["started_at"] or row["filed_at"], "turn": number, "signal": None}
        for number, row in enumerate(rows, 1)
    ]
    signals = {
        signal["signal_id"]: (number, dict(signal))
        for number, row in reversed(list(enumerate(rows, 1)))
        for signal in (*row["conversation_signals"], *row["signals"])
    }
    said = [
        {
            "at": signal["occurred_at"],
            "turn": number,
            "signal": {**signal, "comment": comments.get(name)},
        }
        for name, (number, signal) in signals.items()
    ]
    return sorted(asked + said, key=lambda item: (item["at"], item["signal"] is not None))
