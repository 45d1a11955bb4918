"""The free local judge: is each claim's content found together in one place of the context?

It runs on all traffic, without a model and without network. It knows words, not meaning: expect
a balanced accuracy of .70 to .85 on real claims, and calibrate it before trusting it.

A claim's support is the weighted share of its words found in one sentence of the context, in
three neighbouring ones and anywhere: the mean of the three. Names and numbers weigh more, words
of grammar less. A number that is nowhere cuts it, as do another amount and a negation in a
sentence about the same thing. Weights and thresholds were set by hand and checked on public data
(`python -m tests.judge_report`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple

from collector.model import Claim, Document, Judgement, RagRequest, Verdict
from scorers import faithfulness
from scorers.lexical_claims import clauses, split_claims
from scorers.lexical_evidence import Context, Evidence
from scorers.lexical_text import language
from scorers.refusal import is_refusal

FINGERPRINT = "lexical-2"
SUPPORTED_FROM = 0.65
_NUMBER_FACTOR = 0.7
_CONFLICT_FACTOR = 0.6
_COMPLETE_FROM = 0.95
_ABSENT_BELOW = 0.4


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
            claim
            for text, found in zip(texts, evidence, strict=True)
            for claim in _judged(context, text, found)
        ],
        None,
    )


def check_claims(texts: Sequence[str], documents: Sequence[Document], code: str) -> list[Claim]:
    """Return a verdict on each claim against the documents.

    Args:
        texts: the claims.
        documents: what may support them.
        code: their language, ISO 639-1.
    """
    context = Context(documents, code)
    return [_claim(text, context.find(context.read(text))) for text in texts]


class LexicalJudge:
    """`collector.ports.Judge` on `lexical_score`."""

    fingerprint = FINGERPRINT

    async def judge(self, request: RagRequest) -> Judgement:
        """Return the judgement; its score is supported claims / claims."""
        # In a thread: a long answer would hold up the receivers in the same event loop.
        result = await asyncio.to_thread(lexical_score, request)
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


def _judged(context: Context, text: str, found: Evidence | None) -> list[Claim]:
    """Return a sentence as one claim, or its clauses if one is backed and another is absent.

    "SSO is included on Pro, at no extra cost" is two claims, of which a page may back one.
    """
    claim = _claim(text, found)
    if found is None or found.contradicted:
        return [claim]
    partly = _ABSENT_BELOW <= found.coverage < _COMPLETE_FROM
    parts = clauses(text) if partly else [text]
    if len(parts) == 1:
        return [claim]
    statements = [context.read(part) for part in parts]
    shares = [found.share(statement) for statement in statements]
    if min(shares) >= _ABSENT_BELOW or max(shares) < SUPPORTED_FROM:
        return [claim]
    places = [context.find(statement) for statement in statements]
    claims = [_claim(part, place) for part, place in zip(parts, places, strict=True)]
    absent = any(place is None or place.coverage < _ABSENT_BELOW for place in places)
    backed = any(part.verdict == "SUPPORTED" for part in claims)
    return claims if absent and backed else [claim]


def _claim(text: str, found: Evidence | None) -> Claim:
    if found is not None and found.contradicted:
        verdict: Verdict = "CONTRADICTED"
    elif found is not None and not found.number_missing and _support(found) >= SUPPORTED_FROM:
        verdict = "SUPPORTED"
    else:
        return Claim(text=text, verdict="NOT_FOUND")
    return Claim(text=text, verdict=verdict, quote=found.quote, document_rank=found.rank)
