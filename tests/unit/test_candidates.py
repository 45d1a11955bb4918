"""Golden candidates: which pages a question needs, and each question once."""

from __future__ import annotations

from typing import Any

import pytest

from dashboards.candidates import candidate_of, distinct


def conversation(*claims: dict[str, Any], question: str = "Is SSO on Pro free?") -> dict[str, Any]:
    documents = [
        {"rank": rank, "document_id": page, "source": None, "cited": False}
        for rank, page in ((1, "page-212"), (2, "page-1140"))
    ]
    turn = {
        "trace_id": "t1",
        "started_at": "2026-11-23T10:00:00+00:00",
        "question": question,
        "claims": list(claims),
        "documents": documents,
        "diagnosis": {"name": "misread"},
        "probability": 1.0,
    }
    return {
        "conversation_id": "c1",
        "worst_trace_id": "t1",
        "segment": "lookup",
        "reasons": [],
        "signals": [],
        "turns": [turn],
    }


def claim(verdict: str, rank: int | None = None, quote: str | None = None) -> dict[str, Any]:
    return {"verdict": verdict, "document_rank": rank, "quote": quote}


@pytest.mark.parametrize(
    ("claims", "sources", "quotes"),
    [
        ([claim("SUPPORTED", 1, "SSO on Pro")], ["page-212"], ["SSO on Pro"]),
        # What contradicts the answer holds the right one: the question can be answered from it.
        (
            [claim("CONTRADICTED", 2, "SSO costs 2 dollars")],
            ["page-1140"],
            ["SSO costs 2 dollars"],
        ),
        (
            [claim("SUPPORTED", 1, "SSO on Pro"), claim("CONTRADICTED", 2, "2 dollars")],
            ["page-212", "page-1140"],
            ["SSO on Pro", "2 dollars"],
        ),
        ([claim("NOT_FOUND")], [], []),
    ],
)
def test_sources_are_the_pages_that_speak_of_what_was_asked(
    claims: list[dict[str, Any]], sources: list[str], quotes: list[str]
) -> None:
    found = candidate_of(conversation(*claims), "judge")
    assert found is not None
    assert (found["gold_sources"], found["quotes"]) == (sources, quotes)
    assert found["answerable"] == bool(sources)


def test_a_question_asked_again_is_one_candidate_with_a_count() -> None:
    questions = (
        "Is SSO on Pro free?",
        "is sso on pro  free",
        "Is SSO on Team free for 5 users?",
        "Is SSO on Pro free ?",
        "Is SSO on Team free for 6 users?",
    )
    drafts = [candidate_of(conversation(question=text), "judge") for text in questions]
    found = distinct(draft for draft in drafts if draft is not None)
    assert [(one["question"], one["times"]) for one in found] == [
        ("Is SSO on Pro free?", 3),
        ("Is SSO on Team free for 5 users?", 1),
        ("Is SSO on Team free for 6 users?", 1),
    ]
