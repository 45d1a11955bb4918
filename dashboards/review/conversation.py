"""A conversation as the review shows it: turns, claims, signals, and why it is here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collector.model import INFERRED, Claim, Document, RagRequest, Stage
from scorers.diagnosis import diagnose_online

Row = Mapping[str, Any]

SHOWN_TURNS = 50
_SHOWN_CHARACTERS = 20_000
"""Of a question, an answer or a document; some eight pages."""
_SHOWN_OF_COMMENT = 2_000

# Complaint of users: how a person would say one of it, and several.
_COMPLAINTS = {
    "thumbs_down": ("thumbs down", "{n} thumbs down"),
    "low_rating": ("a low rating", "{n} low ratings"),
    "rephrase": (
        "the user asked again in other words",
        "the user asked again in other words {n} times",
    ),
    "push_back": ("the user pushed back", "the user pushed back {n} times"),
    "regenerate": ("the answer was regenerated", "the answer was regenerated {n} times"),
    "abandon": ("the user gave up", "the user gave up {n} times"),
    "repeated_clicks": (
        "many of the documents were opened",
        "many of the documents were opened, for {n} answers",
    ),
}
# Fault of the answer: what one of it weighs, and the same.
_FAULTS = {
    "contradicted": (
        2.0,
        "a claim contradicts the documents",
        "{n} claims contradict the documents",
    ),
    "unsupported": (1.0, "a claim is not in the documents", "{n} claims are not in the documents"),
    "no_context": (1.0, "answered without any document", ""),
    "failed_request": (1.5, "the request ended in an error", ""),
    "stray_citation": (1.0, "a citation points to no document", ""),
}


def conversation_of(
    ranked: Row, turns: Sequence[Row], comments: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return one conversation of the review; long ones and long texts cut short.

    Args:
        ranked: its row of the query `worst`.
        turns: as returned by `conversation_turns`, oldest first.
        comments: of its signals, by their ids.
    """
    shown = [turn_of(row) for row in turns]
    worst = next((turn for turn in shown if turn["trace_id"] == ranked["worst_trace_id"]), None)
    return {
        "conversation_id": ranked["conversation"],
        "badness": float(ranked["badness"]),
        "reasons": reasons(ranked),
        "service": ranked["service"],
        "segment": ranked["segment"],
        "started_at": _iso(ranked["first_at"]),
        "question": cut(ranked["question"]),
        "answer": cut(ranked["answer"]),
        "score": worst["score"] if worst else None,
        "diagnosis": worst["diagnosis"] if worst else None,
        "worst_trace_id": ranked["worst_trace_id"],
        "trace_ids": list(ranked["trace_ids"]),
        "turns": shown,
        "turns_left_out": turns[0]["turns_total"] - len(turns) if turns else 0,
        "signals": [
            signal_of(signal, comments.get(signal["signal_id"])) for signal in ranked["signals"]
        ],
        "signals_left_out": ranked["signals_total"] - len(ranked["signals"]),
    }


def reasons(ranked: Row) -> list[str]:
    """Say in words, heaviest first, what makes up the badness of a conversation."""
    said = []
    for complaint, (one, many) in _COMPLAINTS.items():
        if (weight := float(ranked[complaint])) > 0:
            marks = [mark for mark in ranked["marks"] if mark["complaint"] == complaint]
            said.append((weight, _counted(len(marks), one, many) + _sureness(marks)))
    for fault, (unit, one, many) in _FAULTS.items():
        if (weight := float(ranked[fault])) > 0:
            said.append((weight, _counted(round(weight / unit), one, many)))
    if (low := float(ranked["low_lexical"])) > 0:
        said.append((low, f"not judged yet; the local score is {1 - low:.2f}"))
    return [text for _, text in sorted(said, key=lambda pair: -pair[0])]


def _counted(count: int, one: str, many: str) -> str:
    return many.format(n=count) if count > 1 and many else one


def _sureness(marks: list[Row]) -> str:
    """Say which of some signals nobody sent, and how sure they are, the surest first."""
    sure = sorted((m["confidence"] or 0.0 for m in marks if m["source"] == INFERRED), reverse=True)
    if not sure:
        return ""
    share = "" if len(sure) == len(marks) else f"{len(sure)} "
    shown = ", ".join(f"{confidence:.2f}" for confidence in sure[:3])
    return f" ({share}inferred, {shown}{', …' if len(sure) > 3 else ''})"


def turn_of(row: Row) -> dict[str, Any]:
    """Return one request as the review shows it.

    Args:
        row: of `conversation_turns`.
    """
    claims = [dict(claim) for claim in row["claims"]]
    documents = [dict(document) for document in row["documents"]]
    diagnosis = diagnose_online(
        _request(row, documents),
        [Claim(**claim) for claim in claims],
        reported=any(signal["complaint"] for signal in row["signals"]),
    )
    judged = row["judgement_status"] == "judged"
    return {
        "trace_id": row["trace_id"],
        "started_at": _iso(row["started_at"]),
        "question": cut(row["question"]),
        "answer": cut(row["answer"]),
        "score": row["score"] if judged else None,
        "reason": None if judged else row["reason"] or row["ineligible"],
        "lexical_score": row["lexical_score"],
        "sampled": bool(row["sampled"]),
        "probability": row["probability"],
        "flags": list(row["flags"]),
        "citations": list(row["citations"]),
        "claims": claims,
        "documents": [{**document, "text": cut(document["text"])} for document in documents],
        "diagnosis": {
            "name": diagnosis.name,
            "cause": diagnosis.cause,
            "possible": list(diagnosis.possible),
            "advice": diagnosis.what_to_do,
        },
    }


def _request(row: Row, documents: list[dict[str, Any]]) -> RagRequest:
    return RagRequest(
        trace_id=row["trace_id"],
        question=row["question"],
        answer=row["answer"],
        documents=[Document(**document) for document in documents],
        stages=[Stage(**stage) for stage in row["stages"]],
        retriever_stages=row["retriever_stages"],
        reranker_stages=row["reranker_stages"],
        citations=list(row["citations"]),
        status=row["status"],
        flags=list(row["flags"]),
    )


def signal_of(signal: Row, comment: str | None) -> dict[str, Any]:
    """Return one signal as the review shows it, its comment cut short."""
    shown = cut(comment, _SHOWN_OF_COMMENT)
    return {**signal, "occurred_at": _iso(signal["occurred_at"]), "comment": shown}


def cut(text: str | None, length: int = _SHOWN_CHARACTERS) -> str | None:
    """Return a text as it is, or its beginning where it is longer than is shown."""
    return text if text is None or len(text) <= length else f"{text[:length]}…"


def _iso(instant: Any) -> str | None:
    return None if instant is None else instant.isoformat()
