"""A conversation as the review shows it: turns, claims, signals, and why it is here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from collector.model import Claim, Document, RagRequest, Stage
from scorers.diagnosis import diagnose_online

Row = Mapping[str, Any]

# Component of the badness: what one unit of it weighs, and how a person would say it.
_REASONS: tuple[tuple[str, float, str, str], ...] = (
    ("thumbs_down", 3.0, "thumbs down", "{n} thumbs down"),
    ("low_rating", 2.0, "a low rating", "{n} low ratings"),
    ("rephrase", 1.5, "the user asked again in other words", "the user asked again {n} times"),
    ("regenerate", 1.5, "the answer was regenerated", "the answer was regenerated {n} times"),
    ("abandon", 1.5, "the user gave up", "the user gave up {n} times"),
    (
        "contradicted",
        2.0,
        "a claim contradicts the documents",
        "{n} claims contradict the documents",
    ),
    ("unsupported", 1.0, "a claim is not in the documents", "{n} claims are not in the documents"),
    ("no_context", 1.0, "answered without any document", ""),
    ("failed_request", 1.5, "the request ended in an error", ""),
    ("stray_citation", 1.0, "a citation points to no document", ""),
)


def conversation_of(ranked: Row, turns: Iterable[Row]) -> dict[str, Any]:
    """Return one conversation of the review.

    Args:
        ranked: its row of the query `worst`.
        turns: its rows of the query `conversation`, oldest first.
    """
    shown = [_turn(row) for row in turns]
    worst = next((turn for turn in shown if turn["trace_id"] == ranked["worst_trace_id"]), None)
    return {
        "conversation_id": ranked["conversation"],
        "badness": float(ranked["badness"]),
        "reasons": reasons(ranked),
        "service": ranked["service"],
        "segment": ranked["segment"],
        "started_at": _iso(ranked["first_at"]),
        "question": ranked["question"],
        "answer": ranked["answer"],
        "score": worst["score"] if worst else None,
        "diagnosis": worst["diagnosis"] if worst else None,
        "worst_trace_id": ranked["worst_trace_id"],
        "trace_ids": list(ranked["trace_ids"]),
        "turns": shown,
        "signals": [_signal(signal) for signal in ranked["signals"]],
    }


def reasons(ranked: Row) -> list[str]:
    """Say in words, heaviest first, what makes up the badness of a conversation."""
    said = []
    for column, unit, one, many in _REASONS:
        weight = float(ranked[column])
        if weight > 0:
            count = round(weight / unit)
            said.append((weight, many.format(n=count) if count > 1 and many else one))
    if (low := float(ranked["low_lexical"])) > 0:
        said.append((low, f"not judged yet; the local score is {1 - low:.2f}"))
    return [text for _, text in sorted(said, key=lambda pair: -pair[0])]


def _turn(row: Row) -> dict[str, Any]:
    claims = [dict(claim) for claim in row["claims"]]
    documents = [dict(document) for document in row["documents"]]
    diagnosis = diagnose_online(_request(row, documents), [Claim(**claim) for claim in claims])
    judged = row["judgement_status"] == "judged"
    return {
        "trace_id": row["trace_id"],
        "started_at": _iso(row["started_at"]),
        "question": row["question"],
        "answer": row["answer"],
        "score": row["score"] if judged else None,
        "reason": None if judged else row["reason"] or row["ineligible"],
        "lexical_score": row["lexical_score"],
        "sampled": bool(row["sampled"]),
        "probability": row["probability"],
        "flags": list(row["flags"]),
        "citations": list(row["citations"]),
        "claims": claims,
        "documents": documents,
        "diagnosis": {
            "name": diagnosis.name,
            "cause": diagnosis.cause,
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


def _signal(signal: Row) -> dict[str, Any]:
    return {**signal, "occurred_at": _iso(signal["occurred_at"])}


def _iso(instant: Any) -> str | None:
    return None if instant is None else instant.isoformat()
