"""What the scorers beside faithfulness look at, and those that need no model."""

from __future__ import annotations

from typing import Any

import pytest

from collector.citations import citations_in
from collector.model import Document, RagRequest
from scorers.aspects import Gold, Golds, ReferenceJudge, applies, cited_claims, local_scorer

PAGES = [
    Document(rank=1, document_id="212", text="SSO is available on the Pro plan."),
    Document(rank=2, document_id="7", text="The office is closed on Sundays."),
]
GOLDS = Golds(
    {"Is SSO included in the Pro plan?": Gold("SSO is available on Pro.", ["212", "1140"])}
)


def request(**changes: Any) -> RagRequest:
    fields: dict[str, Any] = {
        "trace_id": "1" * 32,
        "question": "Is SSO included in the Pro plan?",
        "answer": "SSO is available on Pro [1].",
        "documents": PAGES,
    }
    return RagRequest(**(fields | changes))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("SSO is available [1]. It costs 2 dollars.", [("SSO is available.", (1,))]),
        (
            "SSO is available.[1] It costs 2 dollars. [2]",
            [("SSO is available.", (1,)), ("It costs 2 dollars.", (2,))],
        ),
        ("SSO is available on Pro [1, 2].", [("SSO is available on Pro.", (1, 2))]),
        ("SSO is available on Pro [1][2].", [("SSO is available on Pro.", (1, 2))]),
        ("SSO is available on Pro [ID:0].", [("SSO is available on Pro.", (1,))]),
        (
            "- SSO is on the Pro plan [1]\n- Backups run daily at noon [doc2]",
            [("SSO is on the Pro plan", (1,)), ("Backups run daily at noon", (2,))],
        ),
        ("SSO is available on Pro.\n\nSources:\n[1] Plans", []),
        ("SSO is available on Pro.", []),
        ("", []),
    ],
)
def test_claims_are_found_with_what_they_cite(
    answer: str, expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert [tuple(claim) for claim in cited_claims(request(answer=answer))] == expected


def test_characters_that_carry_numbers_cannot_be_smuggled_in() -> None:
    assert cited_claims(request(answer="SSO is available on Pro\ue001.")) == []
    assert citations_in("SSO [1] and \ue002") == [1]


@pytest.mark.parametrize(
    ("scorer", "changes", "expected"),
    [
        ("answer_relevance", {"documents": []}, True),
        ("answer_relevance", {"answer": None}, False),
        ("answer_relevance", {"question": " "}, False),
        ("refusal", {"documents": []}, True),
        ("context_sufficiency", {"answer": None}, True),
        ("context_sufficiency", {"documents": []}, False),
        ("context_precision", {"documents": [Document(rank=1, document_id="7")]}, False),
        ("context_precision", {}, True),
        ("citation_support", {}, True),
        ("citation_support", {"answer": "SSO is available on Pro."}, False),
        ("correctness", {}, True),
        ("correctness", {"question": "IS SSO included in the pro plan"}, True),
        ("correctness", {"question": "Is SSO included in the Basic plan?"}, False),
        ("context_recall", {"documents": []}, True),
        ("context_recall", {"question": "Who are you?"}, False),
        ("second_judge", {}, True),
        ("second_judge", {"documents": []}, False),
    ],
)
def test_a_scorer_applies_where_there_is_what_it_looks_at(
    scorer: str, changes: dict[str, Any], *, expected: bool
) -> None:
    assert applies(scorer, request(**changes), GOLDS) is expected


def test_texts_that_were_not_sent_are_not_taken_for_an_empty_context() -> None:
    pages = [PAGES[0], Document(rank=2, document_id="7")]
    withheld = request(documents=pages, flags=["content_missing"])
    assert not applies("context_precision", withheld)


async def test_recall_of_a_golden_question_is_computed_from_its_sources() -> None:
    judgement = await local_scorer("context_recall", GOLDS).judge(request())
    assert (judgement.scorer, judgement.status, judgement.score) == (
        "context_recall",
        "judged",
        0.5,
    )
    nothing = await local_scorer("context_recall", GOLDS).judge(request(documents=[]))
    assert nothing.score == 0.0


@pytest.mark.parametrize(
    ("answer", "score"),
    [("I'm sorry, I don't know.", 1.0), ("It costs 5 euros.", 0.0), ("We do not offer that.", 1.0)],
)
async def test_refusals_are_found_without_a_model(answer: str, score: float) -> None:
    judgement = await local_scorer("refusal").judge(request(answer=answer))
    assert judgement.score == score


async def test_citations_are_checked_against_the_cited_documents_without_a_model() -> None:
    answer = "SSO is available on the Pro plan [1]. The Pro plan has SSO available [2]."
    judgement = await local_scorer("citation_support").judge(request(answer=answer))
    assert [claim.verdict for claim in judgement.claims] == ["SUPPORTED", "NOT_FOUND"]
    assert judgement.score == 0.5


async def test_a_citation_of_a_document_that_is_not_there_is_unsupported() -> None:
    answer = "SSO is available on the Pro plan [9]."
    judgement = await local_scorer("citation_support").judge(request(answer=answer))
    assert (judgement.score, judgement.claims[0].verdict) == (0.0, "NOT_FOUND")


async def test_correctness_asks_how_much_of_the_reference_the_answer_states() -> None:
    golds = Golds(
        {"What is SSO?": Gold("SSO is on the Pro plan. SSO costs 2 dollars a month.", [])}
    )
    judge = ReferenceJudge(local_scorer("correctness"), golds)
    asked = request(question="what is SSO", answer="SSO is on the Pro plan.")
    judgement = await judge.judge(asked)
    assert (judgement.trace_id, judgement.scorer) == ("1" * 32, "correctness")
    assert judgement.score == 0.5


async def test_a_question_that_left_the_golden_set_is_not_scored() -> None:
    judgement = await ReferenceJudge(local_scorer("correctness"), Golds({})).judge(request())
    assert (judgement.status, judgement.score) == ("unscored", None)
