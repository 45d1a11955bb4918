"""Faithfulness arithmetic on the requirements' worked numbers, and what counts as evidence."""

from typing import Any

import pytest

from collector.model import Claim, Document, RagRequest, Verdict
from scorers.faithfulness import score, unscored_reason, verify_quotes

PAGES = [
    Document(
        rank=1,
        text="Prices will increase in 2025 for all customers of the Pro plan, which costs $49.99 "
        "per month.\nIt does not include SSO.",
    ),
    Document(rank=2, title="House rules", text="Dogs aren’t allowed — except on the **terrace**."),
    Document(rank=3, text="单点登录包含在专业版中，无需额外付费。"),
]


def claims(*verdicts: Verdict) -> list[Claim]:
    return [Claim(text=f"claim {n}", verdict=verdict) for n, verdict in enumerate(verdicts)]


def verified(
    quote: str | None, rank: int | None = 1, verdict: Verdict = "SUPPORTED", text: str = "a claim"
) -> Claim:
    claim = Claim(text=text, verdict=verdict, quote=quote, document_rank=rank)
    (found,) = verify_quotes([claim], PAGES)
    return found


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(
            claims("SUPPORTED", "SUPPORTED", "NOT_FOUND", "SUPPORTED"), 0.75, id="3 of 4 backed"
        ),
        pytest.param(
            claims("SUPPORTED", "SUPPORTED", "SUPPORTED", "SUPPORTED", "NOT_FOUND"),
            0.8,
            id="one of five invented",
        ),
        pytest.param(
            [
                Claim(text="SSO is included on Pro", verdict="SUPPORTED"),
                Claim(text="SSO on Pro is at no extra cost", verdict="NOT_FOUND"),
            ],
            0.5,
            id="SSO is included on Pro, at no extra cost",
        ),
        pytest.param(claims("CONTRADICTED"), 0.0, id="a contradiction backs nothing"),
        pytest.param(claims("SUPPORTED"), 1.0, id="all backed"),
    ],
)
def test_faithfulness_is_supported_claims_over_claims(judged: list[Claim], expected: float) -> None:
    assert score(judged) == expected


def test_an_answer_without_claims_is_not_perfect_but_unmeasured() -> None:
    with pytest.raises(ValueError, match="unscored"):
        score([])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({}, None, id="all there"),
        pytest.param({"question": None}, "no_question", id="no question"),
        pytest.param({"question": "  "}, "no_question", id="blank question"),
        pytest.param({"answer": None}, "no_answer", id="no answer"),
        pytest.param({"answer": "\n"}, "no_answer", id="blank answer"),
        pytest.param({"documents": []}, "no_context", id="nothing retrieved"),
        pytest.param(
            {"documents": [], "flags": ["empty_retrieval"]}, "no_context", id="empty retrieval"
        ),
        pytest.param({"documents": [Document(rank=1)]}, "content_missing", id="texts not sent"),
        pytest.param(
            {"answer": None, "flags": ["content_missing"]}, "content_missing", id="answer withheld"
        ),
        pytest.param(
            {"documents": [Document(rank=1, text="x"), Document(rank=2)]},
            None,
            id="one document of several is blank",
        ),
        pytest.param(
            {
                "documents": [Document(rank=1, text="x"), Document(rank=2)],
                "flags": ["content_missing"],
            },
            "content_missing",
            id="one document of several is withheld",
        ),
        pytest.param(
            {"documents": PAGES, "flags": ["content_missing"]}, None, id="only other texts withheld"
        ),
    ],
)
def test_a_request_says_why_it_cannot_be_judged(
    changes: dict[str, Any], reason: str | None
) -> None:
    fields: dict[str, Any] = {"question": "Why?", "answer": "So.", "documents": PAGES[:1]}
    assert unscored_reason(RagRequest(trace_id="0" * 32, **(fields | changes))) == reason


@pytest.mark.parametrize(
    ("quote", "rank"),
    [
        pytest.param("Prices will increase in 2025", 1, id="verbatim"),
        pytest.param("  PRICES will\n increase, in 2025 ", 1, id="case, space and punctuation"),
        pytest.param("Dogs aren't allowed - except on the terrace", 2, id="quotes, dashes, markup"),
        pytest.param("House rules", 2, id="a title"),
        pytest.param("costs $49.99", 1, id="short but exact"),
        pytest.param("Pro plan, which costs 49.99 per month", 1, id="a sign left out"),
        pytest.param("Prices will increse in 2025 for all customers", 1, id="a typing error"),
        pytest.param("Prices will increase in 2025 for the customers", 1, id="a small word"),
        pytest.param("Prices will in crease in 2025 for all customers", 1, id="a broken word"),
        pytest.param("Prices will increase … costs $49.99", 1, id="an ellipsis"),
        pytest.param("Prices will increase [...] not include SSO", 1, id="a bracketed ellipsis"),
        pytest.param("单点登录包含在专业版中", 3, id="Chinese"),
        pytest.param("单点登录 包含在专业版中,无需", 3, id="Chinese with other spaces and commas"),
    ],
)
def test_a_quote_that_stands_in_the_context_is_evidence(quote: str, rank: int) -> None:
    found = verified(quote, rank)
    assert (found.verdict, found.document_rank, found.note) == ("SUPPORTED", rank, None)
    assert found.quote == quote


@pytest.mark.parametrize(
    "quote",
    [
        pytest.param("Our support is open day and night, also on Sundays", id="invented"),
        pytest.param("Prices will increase in 2026 for all customers", id="another number"),
        pytest.param("which costs $49.90 per month", id="another price"),
        pytest.param("costs $49", id="half a number"),
        pytest.param("Prices will decrease in 2025 for all customers", id="another word"),
        pytest.param("Dogs are allowed - except on the terrace", id="a negation left out"),
        pytest.param("It does include SSO", id="a short quote without its negation"),
        pytest.param("Prices will not increase in 2025 for all customers", id="a negation added"),
        pytest.param("rices will increase in 2025 for all custo", id="cut in the middle of a word"),
        pytest.param("costs $49.99 ... Prices will increase", id="parts in another order"),
        pytest.param("Prices will increase ... for dogs", id="one part invented"),
        pytest.param("Prices will increase ... on the terrace", id="parts of two documents"),
        pytest.param("It", id="two letters"),
        pytest.param("for all of the", id="words of grammar only"),
        pytest.param("...", id="punctuation only"),
        pytest.param("", id="empty"),
        pytest.param(None, id="none"),
    ],
)
@pytest.mark.parametrize("verdict", ["SUPPORTED", "CONTRADICTED"])
def test_what_does_not_stand_in_the_context_is_no_evidence(
    quote: str | None, verdict: Verdict
) -> None:
    found = verified(quote, 1, verdict)
    assert (found.verdict, found.note) == ("NOT_FOUND", "quote_unverified")
    assert (found.quote, found.document_rank) == (None, None)


@pytest.mark.parametrize("rank", [2, 7, None])
def test_a_quote_from_another_document_gets_the_right_rank(rank: int | None) -> None:
    assert verified("Prices will increase", rank).document_rank == 1


def test_the_named_document_wins_where_several_hold_the_quote() -> None:
    twice = [Document(rank=1, text="SSO is included."), Document(rank=2, text="SSO is included.")]
    claim = Claim(text="x", verdict="SUPPORTED", quote="SSO is included", document_rank=2)
    assert verify_quotes([claim], twice)[0].document_rank == 2


def test_a_document_shorter_than_the_quote_does_not_match_a_part_of_it() -> None:
    claim = Claim(text="x", verdict="SUPPORTED", quote="The Pro plan includes SSO for everybody")
    assert verify_quotes([claim], [Document(rank=1, text="Pro plan")])[0].verdict == "NOT_FOUND"


def test_a_claim_that_was_not_found_carries_no_evidence() -> None:
    found = verified("Prices will increase", 1, "NOT_FOUND")
    assert (found.verdict, found.quote, found.document_rank, found.note) == (
        "NOT_FOUND",
        None,
        None,
        None,
    )


def test_without_documents_nothing_is_supported() -> None:
    claim = Claim(text="x", verdict="SUPPORTED", quote="Prices will increase", document_rank=1)
    assert verify_quotes([claim], [])[0].verdict == "NOT_FOUND"
