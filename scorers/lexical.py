"""The free local judge: is each claim's content found together in one place of the context?

It runs on all traffic, without a model and without network. It knows words, not meaning: expect
a balanced accuracy of .70 to .85 on real claims, and calibrate it before trusting it.

A claim's support is the weighted share of its words found within five neighbouring sentences,
averaged with the share found anywhere in the context. Names and numbers weigh more, words of
grammar less; a number that is nowhere, or a statement turned round by a negation, cuts it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from collector.model import Claim, Judgement, RagRequest, Verdict
from scorers import faithfulness
from scorers.lexical_claims import split_claims
from scorers.lexical_evidence import Context, Evidence
from scorers.lexical_text import language
from scorers.refusal import is_refusal

FINGERPRINT = "lexical-1"
SUPPORTED_FROM = 0.65
_NUMBER_FACTOR = 0.7
_CONFLICT_FACTOR = 0.6


class LexicalResult(NamedTuple):
    """What the local judge says of one answer.

    `score` is the mean support of the claims, weighted by their length, in [0, 1]: a continuous
    covariate, not a share of claims. It is None, with a `reason` of
    `collector.model.UNSCORED_REASONS`, where there is nothing to measure.
    """

    score: float | None
    claims: list[Claim]
    reason: str | None


def lexical_score(request: RagRequest) -> LexicalResult:
    """Score one answer against its documents, claim by claim. Pure; about a millisecond."""
    reason = faithfulness.unscored_reason(request)
    answer = request.answer or ""
    if reason is None and is_refusal(answer):
        reason = "no_claims"
    if reason is not None:
        return LexicalResult(None, [], reason)
    code = language(answer)
    texts = split_claims(answer, code)
    if not texts:
        return LexicalResult(None, [], "no_claims")
    context = Context(request.documents, code)
    statements = [context.read(text) for text in texts]
    evidence = [context.find(statement) for statement in statements]
    supports = [_support(found) for found in evidence]
    sizes = [sum(statement.weights.values()) for statement in statements]
    weighted = math.fsum(size * support for size, support in zip(sizes, supports, strict=True))
    return LexicalResult(
        weighted / math.fsum(sizes),
        [
            _judged(text, found, support)
            for text, found, support in zip(texts, evidence, supports, strict=True)
        ],
        None,
    )


class LexicalJudge:
    """`collector.ports.Judge` on `lexical_score`."""

    fingerprint = FINGERPRINT

    async def judge(self, request: RagRequest) -> Judgement:
        """Return the judgement; its score is supported claims / claims."""
        result = lexical_score(request)
        return Judgement(
            trace_id=request.trace_id,
            scorer="faithfulness",
            fingerprint=FINGERPRINT,
            status="judged" if result.reason is None else "unscored",
            score=faithfulness.score(result.claims) if result.claims else None,
            reason=result.reason,
            claims=result.claims,
            engine="lexical",
        )

    async def close(self) -> None:
        """Nothing to release."""


def _support(found: Evidence | None) -> float:
    if found is None:
        return 0.0
    support = found.coverage
    if found.number_missing:
        support *= _NUMBER_FACTOR
    return support * _CONFLICT_FACTOR if found.contradicted else support


def _judged(text: str, found: Evidence | None, support: float) -> Claim:
    if found is None:
        return Claim(text=text, verdict="NOT_FOUND")
    verdict: Verdict | None = None
    if found.contradicted:
        verdict = "CONTRADICTED"
    elif support >= SUPPORTED_FROM and not found.number_missing:
        verdict = "SUPPORTED"
    if verdict is None:
        return Claim(text=text, verdict="NOT_FOUND")
    return Claim(text=text, verdict=verdict, quote=found.quote, document_rank=found.rank)
