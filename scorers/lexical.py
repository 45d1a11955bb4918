"""The free local judge: is each claim's content found together in one place of the context?

It runs on all traffic, without a model and without network. It knows words, not meaning: expect
a balanced accuracy of .64 to .80 on real claims, and calibrate it before trusting it.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from collector.model import Claim, Document, Judgement, RagRequest, Verdict
from scorers import faithfulness
from scorers.lexical_claims import split_claims
from scorers.lexical_text import fold, language, numbers, sentences, stems
from scorers.refusal import is_refusal

FINGERPRINT = "lexical-1"
SUPPORTED_FROM = 0.65
_NUMBER_PENALTY = 0.6


class LexicalResult(NamedTuple):
    """What the local judge says of one answer.

    `score` is the mean support of the claims, in [0, 1], a continuous covariate; None with a
    `reason` of `collector.model.UNSCORED_REASONS` where there is nothing to measure.
    """

    score: float | None
    claims: list[Claim]
    reason: str | None


class _Sentence(NamedTuple):
    rank: int
    text: str
    stems: frozenset[str]
    numbers: frozenset[str]


def lexical_score(request: RagRequest) -> LexicalResult:
    """Score one answer against its documents, claim by claim. Pure; well under a millisecond."""
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
    context = _Context(request.documents, code)
    judged = [context.check(text) for text in texts]
    return LexicalResult(
        math.fsum(support for support, _ in judged) / len(judged),
        [claim for _, claim in judged],
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


class _Context:
    """The sentences of the documents, findable by stem."""

    def __init__(self, documents: Sequence[Document], code: str) -> None:
        self._code = code
        self._sentences: list[_Sentence] = []
        self._places: dict[str, list[int]] = defaultdict(list)
        for document in documents:
            for text in sentences(document.text or "", code):
                folded = fold(text)
                found = frozenset(stems(folded, code))
                for stem in found:
                    self._places[stem].append(len(self._sentences))
                self._sentences.append(
                    _Sentence(document.rank, text, found, frozenset(numbers(folded)))
                )

    def check(self, text: str) -> tuple[float, Claim]:
        """Return the support in [0, 1] and the claim with its verdict and best sentence."""
        folded = fold(text)
        weights = {stem: self._weight(stem) for stem in stems(folded, self._code)}
        covered: dict[int, float] = defaultdict(float)
        for stem, weight in weights.items():
            for place in self._places.get(stem, ()):
                covered[place] += weight
        if not covered:
            return 0.0, Claim(text=text, verdict="NOT_FOUND")
        best = max(covered, key=lambda place: (covered[place], -place))
        evidence = self._sentences[best]
        support = covered[best] / math.fsum(weights.values())
        if not frozenset(numbers(folded)) <= evidence.numbers:
            support *= _NUMBER_PENALTY
        verdict: Verdict = "SUPPORTED" if support >= SUPPORTED_FROM else "NOT_FOUND"
        if verdict == "NOT_FOUND":
            return support, Claim(text=text, verdict=verdict)
        return support, Claim(
            text=text, verdict=verdict, quote=evidence.text, document_rank=evidence.rank
        )

    def _weight(self, stem: str) -> float:
        """Rare words say more; a word that is nowhere says most."""
        return math.log(1 + len(self._sentences) / (1 + len(self._places.get(stem, ()))))
