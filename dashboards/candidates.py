"""Golden-set candidates: bad conversations as drafts of golden rows, with where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from collector.redaction import redact
from dashboards.candidate_states import FRESH, CandidateState
from dashboards.golden_history import GoldenHistory, Standing
from sinks.golden_file import GoldenRow, normalised, position_of_same

Row = Mapping[str, Any]
_TELLING = ("SUPPORTED", "CONTRADICTED")


def candidate_of(conversation: Row, fingerprint: str) -> dict[str, Any] | None:
    """Draft a golden row from the worst turn of a conversation; None without its question.

    Sources are suggestions: the documents that support or contradict a claim, since both speak of
    what was asked, then those that are cited. The reference answer is left for a person to write;
    `draft_reference` is what these documents say, a draft to start from. Whether the question can
    be answered at all is a guess: yes where a source was found. Personal data is masked.

    Args:
        conversation: as made by `conversation_of`.
        fingerprint: of the judge whose verdicts it holds.
    """
    turn = next(
        (t for t in conversation["turns"] if t["trace_id"] == conversation["worst_trace_id"]), None
    )
    if turn is None or not turn["question"]:
        return None
    question = redact(turn["question"].strip())
    telling = [c for c in turn["claims"] if c["verdict"] in _TELLING and c["document_rank"]]
    ranks = [c["document_rank"] for c in telling] + [
        d["rank"] for d in turn["documents"] if d["cited"]
    ]
    sources = _sources(turn["documents"], ranks)
    return {
        "id": f"live-{blake2b(question.lower().encode(), digest_size=5).hexdigest()}",
        "question": question,
        "segment": conversation["segment"],
        "reference_answer": None,
        "draft_reference": _draft_reference(telling),
        "gold_sources": sources,
        "quotes": [redact(c["quote"]) for c in telling if c["quote"]][:3],
        "answerable": bool(sources),
        "draft": True,
        "provenance": {
            "trace_id": turn["trace_id"],
            "conversation_id": conversation["conversation_id"],
            "reasons": conversation["reasons"],
            "signals": sorted({signal["kind"] for signal in conversation["signals"]}),
            "diagnosis": turn["diagnosis"]["name"],
            "judge": fingerprint,
            "inclusion_probability": turn["probability"],
            "asked_at": turn["started_at"],
        },
    }


def _draft_reference(telling: Iterable[Row]) -> str | None:
    quotes = dict.fromkeys(redact(claim["quote"]).strip() for claim in telling if claim["quote"])
    return " ".join(quotes) or None


def known_as(candidate: Row, history: GoldenHistory) -> dict[str, Any]:
    """Return a candidate under the id of one that asks the same and that people have touched."""
    state = history.of(candidate["id"], candidate["question"])
    return {**candidate, "id": state.candidate_id if state else candidate["id"]}


def with_state(candidate: Row, history: GoldenHistory) -> dict[str, Any]:
    """Return a candidate as `distinct` gives it with what people did to it.

    Adds `state`, `by` and `at` of the last thing done, and `standing` of what was exported.
    """
    state = history.of(candidate["id"], candidate["question"])
    if state is None:
        return {**candidate, "state": FRESH, "by": None, "at": None, "standing": None}
    asked_at = candidate["last_asked_at"]
    failed_at = datetime.fromisoformat(asked_at) if asked_at else None
    standing = history.standing(state, failed_at)
    return {**candidate, **(state.row or {}), **_said(state, standing)}


def reviewed_candidate(state: CandidateState, standing: Standing | None) -> dict[str, Any]:
    """Return a candidate that people have touched as `candidate_of` and `with_state` do."""
    return {
        "draft_reference": None,
        **(state.row or {}),
        "id": state.candidate_id,
        "draft": state.state not in ("accepted", "exported"),
        "provenance": state.provenance,
        "times": 0,
        "last_asked_at": None,
        **_said(state, standing),
    }


def _said(state: CandidateState, standing: Standing | None) -> dict[str, Any]:
    return {
        "state": state.state,
        "by": state.actor,
        "at": state.at,
        "standing": None if standing is None else msgspec.to_builtins(standing),
    }


def distinct(candidates: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each question once, the first of each kind, with how often it was found.

    Adds `times` and `last_asked_at` to each candidate. Candidates are the same by their id, or by
    their question as golden files have it.
    """
    kept: list[dict[str, Any]] = []
    questions: list[str] = []
    for candidate in candidates:
        question, asked_at = normalised(candidate["question"]), candidate["provenance"]["asked_at"]
        by_id = (n for n, one in enumerate(kept) if one["id"] == candidate["id"])
        place = next(by_id, position_of_same(question, questions))
        if place is None:
            kept.append({**candidate, "times": 1, "last_asked_at": asked_at})
            questions.append(question)
        else:
            same = kept[place]
            same["times"] += 1
            same["last_asked_at"] = max(same["last_asked_at"] or "", asked_at or "") or None
    return kept


def golden_row(candidate: Row) -> GoldenRow:
    """Return a candidate as a row of a golden file, marked as a draft, with its provenance."""
    return GoldenRow(
        id=candidate["id"],
        question=candidate["question"],
        segment=candidate["segment"],
        gold_sources=candidate["gold_sources"],
        quotes=candidate["quotes"],
        answerable=candidate["answerable"],
        trace_id=candidate["provenance"]["trace_id"],
        extra={"draft": True, "provenance": candidate["provenance"]},
    )


def reviewed_row(reviewed: CandidateState) -> GoldenRow:
    """Return a candidate that people accepted as a row of a golden file, with its provenance."""
    row = reviewed.row or {}
    return GoldenRow(
        id=reviewed.candidate_id,
        question=row["question"],
        segment=row["segment"],
        reference_answer=row["reference_answer"],
        gold_sources=row["gold_sources"],
        quotes=row["quotes"],
        answerable=row["answerable"],
        trace_id=reviewed.trace_id,
        extra={"provenance": {**reviewed.provenance, "accepted_by": reviewed.actor}},
    )


def _sources(documents: Iterable[Row], ranks: list[int]) -> list[str]:
    """Return page ids of the given ranks, each once, in order."""
    by_rank = {d["rank"]: d["document_id"] or d["source"] for d in documents}
    return list(dict.fromkeys(by_rank[rank] for rank in ranks if by_rank.get(rank)))
