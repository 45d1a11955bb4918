"""What can be scored beside faithfulness, what each scorer needs, and the ones that need no model.

Each looks at one aspect of a request, so that a bad answer tells which half of the assistant to
look at. Scores are in [0, 1].
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from collector.citations import carried, taken_out
from collector.model import Claim, Document, Judgement, RagRequest
from collector.ports import Judge
from scorers import faithfulness, retrieval
from scorers.lexical import FINGERPRINT, check_claims, lexical_score
from scorers.lexical_claims import split_claims
from scorers.lexical_text import fold, language
from scorers.refusal import is_refusal


class Scored(NamedTuple):
    """A score with the claims behind it; None with a reason of `UNSCORED_REASONS`."""

    score: float | None
    claims: list[Claim]
    reason: str | None = None


class CitedClaim(NamedTuple):
    """A claim of an answer and the ranks of the documents that it cites."""

    text: str
    ranks: tuple[int, ...]


class Gold(NamedTuple):
    """What a golden set says of a question: the right answer, and the sources it needs."""

    reference_answer: str | None
    gold_sources: Sequence[str]


class Golds:
    """Golden questions, found by what live users ask: the same words in the same order.

    Args:
        by_question: the golden set.
    """

    def __init__(self, by_question: Mapping[str, Gold]) -> None:
        self._by_question = {fold(question): gold for question, gold in by_question.items()}

    def of(self, request: RagRequest) -> Gold | None:
        """Return what is known of the question, None where it is not golden."""
        return self._by_question.get(fold(request.question or ""))


NO_GOLDS = Golds({})


def applies(scorer: str, request: RagRequest, golds: Golds = NO_GOLDS) -> bool:
    """Say whether a request has what a scorer looks at. It decides who can be drawn for it."""
    answered = bool(_text(request.question) and _text(request.answer))
    match scorer:
        case "answer_relevance" | "refusal":
            return answered
        case "context_precision" | "context_sufficiency":
            return bool(_text(request.question)) and _has_context(request)
        case "citation_support":
            return answered and _has_context(request) and bool(cited_claims(request))
        case "correctness":
            gold = golds.of(request)
            return answered and gold is not None and bool(_text(gold.reference_answer))
        case "context_recall":
            gold = golds.of(request)
            return gold is not None and bool(gold.gold_sources)
        case _:
            return faithfulness.unscored_reason(request) is None


def cited_claims(request: RagRequest) -> list[CitedClaim]:
    """Return the claims of the answer that cite something, as a local splitter finds them."""
    answer = request.answer or ""
    found = (taken_out(claim) for claim in split_claims(carried(answer), language(answer)))
    return [CitedClaim(text.strip(), tuple(ranks)) for text, ranks in found if ranks]


def by_documents(
    cited: Sequence[CitedClaim], documents: Sequence[Document]
) -> list[tuple[list[str], list[Document]]]:
    """Group claims that cite the same documents, with these documents."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for claim in cited:
        groups.setdefault(claim.ranks, []).append(claim.text)
    return [
        (texts, [document for document in documents if document.rank in ranks])
        for ranks, texts in groups.items()
    ]


def against_reference(request: RagRequest, reference: str) -> RagRequest:
    """Return the request that judges how much of a reference answer the answer states."""
    return RagRequest(
        trace_id=request.trace_id,
        started_at=request.started_at,
        question=request.question,
        answer=reference,
        documents=[Document(rank=1, text=request.answer)],
    )


class LocalScorer:
    """`collector.ports.Judge` that needs no model.

    Args:
        scorer: its name.
        fingerprint: of what it does.
        score: scores one request; pure.
    """

    def __init__(
        self, scorer: str, fingerprint: str, score: Callable[[RagRequest], Scored]
    ) -> None:
        self._scorer = scorer
        self.fingerprint = fingerprint
        self._score = score

    async def judge(self, request: RagRequest) -> Judgement:
        """See `Judge.judge`."""
        found = await asyncio.to_thread(self._score, request)
        return Judgement(
            trace_id=request.trace_id,
            scorer=self._scorer,
            fingerprint=self.fingerprint,
            status="judged" if found.reason is None else "unscored",
            score=found.score,
            reason=found.reason,
            claims=found.claims,
            engine="lexical",
        )

    async def close(self) -> None:
        """Nothing to release."""


class ReferenceJudge:
    """Judges answers to golden questions against the reference answer.

    Args:
        judge: checks the claims of the reference against the answer.
        golds: the golden set.
    """

    def __init__(self, judge: Judge, golds: Golds) -> None:
        self._judge = judge
        self._golds = golds

    @property
    def fingerprint(self) -> str:
        """That of the judge asked."""
        return self._judge.fingerprint

    async def judge(self, request: RagRequest) -> Judgement:
        """See `Judge.judge`. `no_question`: it is no longer in the golden set."""
        gold = self._golds.of(request)
        if gold is None or not gold.reference_answer:
            return Judgement(
                trace_id=request.trace_id,
                scorer="correctness",
                fingerprint=self.fingerprint,
                status="unscored",
                reason="no_question",
            )
        return await self._judge.judge(against_reference(request, gold.reference_answer))

    async def close(self) -> None:
        """Close the judge asked."""
        await self._judge.close()


def local_scorer(scorer: str, golds: Golds = NO_GOLDS) -> LocalScorer:
    """Return the free version of a scorer.

    Raises:
        KeyError: there is none.
    """
    found: dict[str, tuple[str, Callable[[RagRequest], Scored]]] = {
        "refusal": ("lexical-refusal-1", _refusal),
        "citation_support": (f"{FINGERPRINT}-citations-1", _citations),
        "correctness": (f"{FINGERPRINT}-correctness-1", _words),
        "context_recall": ("gold-1", lambda request: _recall(request, golds)),
    }
    return LocalScorer(scorer, *found[scorer])


def share_supported(claims: Sequence[Claim]) -> Scored:
    """Return supported claims / claims; `no_claims` where there are none."""
    if not claims:
        return Scored(None, [], "no_claims")
    return Scored(faithfulness.score(claims), list(claims))


def precision_of(claims: Sequence[Claim]) -> Scored:
    """Return how far up the helpful documents stand, given a claim for each document by rank.

    The mean precision at each helpful document; 0 where none helps.
    """
    ordered = sorted(claims, key=lambda claim: claim.document_rank or 0)
    ranks = [str(claim.document_rank) for claim in ordered]
    helpful = [str(claim.document_rank) for claim in ordered if claim.verdict == "SUPPORTED"]
    return Scored(retrieval.context_precision(helpful, ranks) or 0.0, ordered)


def _refusal(request: RagRequest) -> Scored:
    return Scored(float(is_refusal(request.answer or "")), [])


def _citations(request: RagRequest) -> Scored:
    code = language(request.answer or "")
    return share_supported(
        [
            claim
            for texts, documents in by_documents(cited_claims(request), request.documents)
            for claim in check_claims(texts, documents, code)
        ]
    )


def _words(request: RagRequest) -> Scored:
    result = lexical_score(request)
    return share_supported(result.claims)


def _recall(request: RagRequest, golds: Golds) -> Scored:
    gold = golds.of(request)
    sources = gold.gold_sources if gold else []
    found = retrieval.context_recall(sources, retrieval.retrieved_ids(request.documents, sources))
    return Scored(found, [], None if found is not None else "no_question")


def _has_context(request: RagRequest) -> bool:
    filled = [bool(_text(document.text)) for document in request.documents]
    return all(filled) if "content_missing" in request.flags and filled else any(filled)


def _text(text: str | None) -> str:
    return (text or "").strip()
