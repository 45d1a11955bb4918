"""One answered golden question, measured.

What a measure cannot say of a question is undefined and stays so: no gold, no recall. What it
should have said and could not is a failure with its cause. Neither is ever a 0.

Correctness is the share of the reference answer's claims that the answer states, by the same
judge that checks faithfulness: the reference is judged as an answer whose only document is what
the assistant said. An answer that is faithful but half is half correct. With the lexical judge
this is a stand-in that knows words, not meaning.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from collector.evaluation.answers import NUMBERS, Answer
from collector.model import Judgement, RagRequest
from collector.model_evaluation import EvalRow
from collector.ports import Judge
from scorers import retrieval
from scorers.aspects import against_reference
from scorers.diagnosis import Evidence, diagnose
from scorers.diagnosis_rows import Diagnosis
from scorers.faithfulness import text_of
from scorers.refusal import is_refusal
from sinks.golden_file import GoldenRow

UNSEGMENTED = "(none)"
"""Segment of rows that name none."""

NO_ANSWER = "no_answer"
"""Cause of an answer that is empty or missing, though the assistant responded."""

NO_RELEVANCE = "answer_relevance is not among judge.scorers"


class _Found(NamedTuple):
    """Values by measure, why the undefined ones are, and causes of failures."""

    values: dict[str, float | None]
    undefined: dict[str, str]
    failures: dict[str, str]


async def measure(
    row: GoldenRow,
    answer: Answer,
    judge: Judge | None,
    *,
    k: int,
    segment: str,
    relevance: Judge | None = None,
) -> EvalRow:
    """Return the measured row.

    Args:
        row: the golden question.
        answer: what the assistant gave.
        judge: checks claims; None leaves faithfulness and correctness undefined.
        k: of recall@k and precision@k.
        segment: under which the row is reported.
        relevance: says whether the answer addresses the question; None leaves that undefined.
    """
    said = (answer.answer or "").strip()
    refused = is_refusal(said) if said else None
    found = _Found({}, {}, {})
    _retrieval(row, answer, k, found)
    _refusal(row, answer, found, refused=refused)
    faithful = await _faithfulness(row, answer, judge, found)
    correct = await _correctness(row, answer, judge, found)
    relevant = await _relevance(row, answer, relevance, found)
    for name in NUMBERS:
        found.values[name] = getattr(answer, name)
        if found.values[name] is None:
            found.undefined[name] = "not_reported"
    finding = None if answer.error else _diagnosis(row, answer, found, faithful, refused=refused)
    return EvalRow(
        question_id=row.id,
        question=row.question,
        segment=segment,
        synthetic=row.synthetic,
        answerable=row.answerable,
        measures=found.values,
        undefined=found.undefined,
        failures=found.failures,
        diagnosis=finding.name if finding else None,
        causes=list(finding.possible) if finding else [],
        advice=finding.what_to_do if finding else None,
        claims=faithful.claims if faithful else [],
        reference_claims=correct.claims if correct else [],
        judge_cost_usd=_cost(faithful, correct, relevant),
        error=answer.error or (None if said else NO_ANSWER),
        labels=_labels(row),
    )


def _labels(row: GoldenRow) -> str:
    said = (row.answerable, row.reference_answer, sorted(row.gold_sources), sorted(row.quotes))
    return blake2b(msgspec.json.encode(said), digest_size=6).hexdigest()


def _diagnosis(
    row: GoldenRow,
    answer: Answer,
    found: _Found,
    faithful: Judgement | None,
    *,
    refused: bool | None,
) -> Diagnosis:
    gold, candidates = row.gold_sources, answer.retrieved
    evidence = Evidence(
        answerable=row.answerable,
        refused=refused,
        candidate_recall=None
        if candidates is None
        else retrieval.context_recall(gold, retrieval.retrieved_ids(candidates, gold)),
        quote_reached=found.values["quote_reached"],
        contradicted_claims=None
        if faithful is None
        else sum(claim.verdict == "CONTRADICTED" for claim in faithful.claims),
    )
    scores = found.values
    return diagnose(
        scores["context_recall"], scores["faithfulness"], scores["correctness"], evidence
    )


def _cost(*judgements: Judgement | None) -> float | None:
    costs = [one.usage.cost_usd for one in judgements if one is not None]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if known else None


def _retrieval(row: GoldenRow, answer: Answer, k: int, found: _Found) -> None:
    gold = row.gold_sources
    names = (f"recall@{k}", "context_recall", f"precision@{k}", "context_precision", "mrr")
    if not gold:
        for name in names:
            _undefined(found, name, "no_gold_sources")
    elif answer.documents is None and answer.retrieved is None:
        for name in names:
            _failed(found, name, answer.error or "no_documents_reported")
    else:
        context = answer.retrieved if answer.documents is None else answer.documents
        ranked = context if answer.retrieved is None else answer.retrieved
        in_context = retrieval.retrieved_ids(context or [], gold)
        retrieved = retrieval.retrieved_ids(ranked or [], gold)
        values = (
            retrieval.recall_at_k(gold, retrieved, k),
            retrieval.context_recall(gold, in_context),
            retrieval.precision_at_k(gold, retrieved, k),
            retrieval.context_precision(gold, in_context),
            retrieval.reciprocal_rank(gold, retrieved),
        )
        found.values.update(zip(names, values, strict=True))
    if not row.quotes:
        _undefined(found, "quote_reached", "no_quotes")
    elif answer.documents is None:
        _failed(found, "quote_reached", answer.error or "no_documents_reported")
    elif answer.documents and not any(document.text for document in answer.documents):
        _failed(found, "quote_reached", "no_texts_reported")
    else:
        texts = [text_of(document) for document in answer.documents]
        found.values["quote_reached"] = retrieval.quote_reached(row.quotes, texts)


def _refusal(row: GoldenRow, answer: Answer, found: _Found, *, refused: bool | None) -> None:
    wanted, other = ("wrong_refusal", "refusal") if row.answerable else ("refusal", "wrong_refusal")
    _undefined(found, other, "answerable" if row.answerable else "unanswerable")
    if refused is not None:
        found.values[wanted] = float(refused)
    elif answer.error:
        _failed(found, wanted, answer.error)
    else:
        _undefined(found, wanted, NO_ANSWER)


async def _faithfulness(
    row: GoldenRow, answer: Answer, judge: Judge | None, found: _Found
) -> Judgement | None:
    if (usable := _usable(judge, answer, "faithfulness", found)) is None:
        return None
    judgement = await usable.judge(
        RagRequest(
            trace_id=row.id,
            question=row.question,
            answer=answer.answer,
            documents=answer.documents or [],
        )
    )
    _take(found, "faithfulness", judgement)
    return judgement


async def _correctness(
    row: GoldenRow, answer: Answer, judge: Judge | None, found: _Found
) -> Judgement | None:
    if not row.answerable or row.reference_answer is None:
        why = "no_reference_answer" if row.answerable else "unanswerable"
        _undefined(found, "correctness", why)
        return None
    if (usable := _usable(judge, answer, "correctness", found)) is None:
        return None
    asked = RagRequest(trace_id=row.id, question=row.question, answer=answer.answer)
    judgement = await usable.judge(against_reference(asked, row.reference_answer))
    _take(found, "correctness", judgement)
    return judgement


async def _relevance(
    row: GoldenRow, answer: Answer, judge: Judge | None, found: _Found
) -> Judgement | None:
    if judge is None:
        _undefined(found, "answer_relevance", NO_RELEVANCE)
        return None
    if (usable := _usable(judge, answer, "answer_relevance", found)) is None:
        return None
    asked = RagRequest(trace_id=row.id, question=row.question, answer=answer.answer)
    judgement = await usable.judge(asked)
    _take(found, "answer_relevance", judgement)
    return judgement


def _usable(judge: Judge | None, answer: Answer, name: str, found: _Found) -> Judge | None:
    """Return the judge where there is one and something to judge; else note why not."""
    if judge is None:
        _undefined(found, name, "no_judge_in_this_tier")
    elif answer.error or not (answer.answer or "").strip():
        _failed(found, name, answer.error or NO_ANSWER)
    else:
        return judge
    return None


def _take(found: _Found, name: str, judgement: Judgement) -> None:
    if judgement.status == "judged":
        found.values[name] = judgement.score
    elif judgement.status == "failed":
        _failed(found, name, judgement.reason or "internal")
    else:
        _undefined(found, name, judgement.reason or "unscored")


def _undefined(found: _Found, name: str, why: str) -> None:
    found.values[name] = None
    found.undefined[name] = why


def _failed(found: _Found, name: str, cause: str) -> None:
    found.values[name] = None
    found.failures[name] = cause
