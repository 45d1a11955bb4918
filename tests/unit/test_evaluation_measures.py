"""One answered golden question, measured: the worked cases, and what stays undefined."""

from __future__ import annotations

from typing import Any

import pytest

from collector.evaluation.answers import Answer
from collector.evaluation.measures import measure
from collector.model import Document
from collector.model_evaluation import EvalRow
from scorers.lexical import LexicalJudge
from sinks.golden_file import GoldenRow

SSO = GoldenRow(
    id="sso",
    question="Is SSO included in the Pro plan?",
    reference_answer="SSO is available on the Pro plan. SSO costs 2 dollars per user and month.",
    gold_sources=["212", "1140"],
    quotes=["SSO is available on the Pro plan"],
)
PAGE_212 = Document(rank=1, document_id="212", text="SSO is available on the Pro plan.")
PAGE_1140 = Document(
    rank=2, document_id="1140", text="Add-ons: SSO costs 2 dollars per user and month."
)
PETS = GoldenRow(id="pets", question="Does Acme offer pet insurance?", answerable=False)


async def measured(row: GoldenRow, *, judged: bool = True, **answer: Any) -> EvalRow:
    return await measure(
        row,
        Answer(question_id=row.id, **answer),
        LexicalJudge() if judged else None,
        k=3,
        segment="multi_page",
    )


async def test_the_sso_case_is_faithful_but_half_and_a_retrieval_problem() -> None:
    row = await measured(SSO, answer="SSO is available on the Pro plan.", documents=[PAGE_212])
    assert row.measures["context_recall"] == 0.5
    assert row.measures["faithfulness"] == 1.0
    assert row.measures["correctness"] == 0.5
    assert row.measures["quote_reached"] == 1.0
    assert row.diagnosis == "retrieval_problem"


async def test_after_the_fix_the_sso_case_works() -> None:
    said = "SSO is available on the Pro plan. SSO costs 2 dollars per user and month."
    row = await measured(SSO, answer=said, documents=[PAGE_212, PAGE_1140])
    assert [row.measures[name] for name in ("context_recall", "faithfulness", "correctness")] == [
        1.0,
        1.0,
        1.0,
    ]
    assert row.diagnosis == "working"


async def test_retrieval_is_measured_as_in_the_worked_example() -> None:
    gold = GoldenRow(id="c", question="Which?", gold_sources=["C2", "C4"])
    found = [Document(rank=i, document_id=f"C{i}") for i in (1, 2, 3)]
    row = await measured(gold, judged=False, documents=found)
    assert row.measures["recall@3"] == 0.5
    assert row.measures["precision@3"] == pytest.approx(1 / 3)
    assert row.measures["mrr"] == 0.5


async def test_what_was_retrieved_and_what_reached_the_context_are_told_apart() -> None:
    gold = GoldenRow(id="c", question="Which?", gold_sources=["C2"], reference_answer="C two.")
    row = await measured(
        gold,
        answer="The moon is made of cheese.",
        documents=[Document(rank=1, document_id="C1", text="C one.")],
        retrieved=[Document(rank=1, document_id="C1"), Document(rank=2, document_id="C2")],
    )
    assert (row.measures["recall@3"], row.measures["context_recall"]) == (1.0, 0.0)
    assert row.causes == ["ranked_out"]


async def test_the_only_right_answer_to_the_unanswerable_is_a_refusal() -> None:
    refused = await measured(PETS, answer="We don't offer that.", documents=[PAGE_212])
    assert refused.measures["refusal"] == 1.0
    assert refused.diagnosis == "refused_rightly"
    answered = await measured(PETS, answer="Yes, from 9 dollars a month.", documents=[PAGE_212])
    assert answered.measures["refusal"] == 0.0
    assert answered.diagnosis == "answered_the_unanswerable"
    assert answered.measures["wrong_refusal"] is None


async def test_refusing_the_answerable_is_counted_as_wrong() -> None:
    row = await measured(SSO, answer="I don't know.", documents=[PAGE_212, PAGE_1140])
    assert row.measures["wrong_refusal"] == 1.0
    assert row.measures["refusal"] is None
    assert row.measures["correctness"] == 0.0
    assert row.undefined["faithfulness"] == "no_claims"


async def test_what_is_not_defined_is_none_with_its_reason_and_never_zero() -> None:
    row = await measured(PETS, answer="We don't offer that.", documents=[PAGE_212])
    for name in ("recall@3", "context_recall", "precision@3", "context_precision", "mrr"):
        assert row.measures[name] is None
        assert row.undefined[name] == "no_gold_sources"
    assert row.undefined["quote_reached"] == "no_quotes"
    assert row.undefined["correctness"] == "unanswerable"
    assert row.undefined["cost_usd"] == "not_reported"
    assert row.measures["answer_relevance"] is None
    assert row.failures == {}


async def test_without_a_judge_only_retrieval_and_refusal_are_measured() -> None:
    row = await measured(SSO, judged=False, answer="I don't know.", documents=[PAGE_212])
    assert row.measures["context_recall"] == 0.5
    assert row.measures["wrong_refusal"] == 1.0
    assert row.undefined["faithfulness"] == row.undefined["correctness"] == "no_judge_in_this_tier"


async def test_a_failed_question_fails_in_every_measure_it_should_have() -> None:
    row = await measured(SSO, error="HTTP 500")
    assert set(row.failures.values()) == {"HTTP 500"}
    assert {"recall@3", "faithfulness", "correctness", "wrong_refusal"} <= row.failures.keys()
    assert all(row.measures[name] is None for name in row.failures)
    assert row.diagnosis is None


async def test_an_empty_answer_is_a_failure_but_its_documents_count() -> None:
    row = await measured(SSO, answer="  ", documents=[PAGE_212])
    assert row.measures["context_recall"] == 0.5
    assert row.failures["faithfulness"] == row.failures["correctness"] == "no_answer"


async def test_an_assistant_that_does_not_show_its_documents_fails_retrieval_not_with_zero() -> (
    None
):
    row = await measured(SSO, answer="SSO is available on the Pro plan.")
    assert row.failures["context_recall"] == "no_documents_reported"
    nothing_found = await measured(SSO, answer="I don't know.", documents=[])
    assert nothing_found.measures["context_recall"] == 0.0
