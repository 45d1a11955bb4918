"""What went wrong with an answer, and what to do: from offline scores, or from a live request.

Seven causes stand behind a reported wrong answer. `diagnose` reads them off the scores of a
golden question, `diagnose_online` off what is known without gold. Where the data leave several
causes open, all are named and none is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from collector.labels import Cause
from collector.model import Claim, RagRequest
from scorers import diagnosis_online as online
from scorers import diagnosis_rows as rows
from scorers.diagnosis_rows import Diagnosis, Level
from scorers.lexical_text import fold, language, stems
from scorers.refusal import is_refusal

_COVERED = 0.8
_FEWEST_WORDS = 3
"""Share of the words of a question that a document must hold to seem to answer it, and the
fewest words that say anything."""


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """From which score on a measure of one question counts as high."""

    recall: float = 0.85
    faithfulness: float = 0.9
    correctness: float = 0.75


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What else is known of a golden question; None is "not known".

    Attributes:
        answerable: whether the corpus holds the answer.
        refused: whether the answer only says that it does not know.
        gold_in_corpus: whether every gold page exists in the index.
        candidate_recall: recall of the candidates before reranking and cutting.
        quote_reached: share of the golden quotes in the context.
        contradicted_claims: claims of the answer that the context contradicts.
        reported: whether a user reported the answer as wrong.
    """

    answerable: bool = True
    refused: bool | None = None
    gold_in_corpus: bool | None = None
    candidate_recall: float | None = None
    quote_reached: float | None = None
    contradicted_claims: int | None = None
    reported: bool = False


_NO_EVIDENCE = Evidence()
_DEFAULTS = Thresholds()


def diagnose(
    recall: float | None,
    faithfulness: float | None,
    correctness: float | None,
    evidence: Evidence = _NO_EVIDENCE,
    thresholds: Thresholds = _DEFAULTS,
) -> Diagnosis:
    """Return the finding on one answered golden question.

    Args:
        recall: context recall in [0, 1]; None without gold sources.
        faithfulness: share of supported claims in [0, 1]; None where unscored.
        correctness: against the reference answer, in [0, 1]; None without one.
        evidence: what else is known; narrows the causes.
        thresholds: from which score on a measure is high.

    Raises:
        ValueError: a score is outside [0, 1].
    """
    found = _level(recall, thresholds.recall)
    grounded = _level(faithfulness, thresholds.faithfulness)
    right = _level(correctness, thresholds.correctness)
    if not evidence.answerable:
        if evidence.refused is None:
            return rows.UNANSWERABLE_UNKNOWN
        return rows.REFUSED_RIGHTLY if evidence.refused else rows.ANSWERED_THE_UNANSWERABLE
    row = rows.REFUSED[found] if evidence.refused else rows.TABLE[found, grounded, right]
    possible = _narrowed(row.possible, recall, evidence, thresholds)
    if evidence.reported and right == "high" and not possible:
        possible = ("answer_was_right",)
    return msgspec.structs.replace(row, possible=possible)


def _level(score: float | None, threshold: float) -> Level | None:
    if score is None:
        return None
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"a score is {score}: it must lie in [0, 1], None where it is not known")
    return "high" if score >= threshold else "low"


def _narrowed(
    possible: tuple[Cause, ...], recall: float | None, evidence: Evidence, thresholds: Thresholds
) -> tuple[Cause, ...]:
    """Strike out the causes that the evidence rules out."""
    out: set[Cause] = set()
    candidates = evidence.candidate_recall
    if evidence.gold_in_corpus:
        out.add("page_missing")
    elif evidence.gold_in_corpus is False and "page_missing" in possible:
        out.update(("not_retrieved", "ranked_out"))
    if candidates is not None and candidates >= thresholds.recall:
        out.update(("page_missing", "not_retrieved"))
    elif candidates is not None and recall is not None and candidates <= recall:
        out.add("ranked_out")
    if evidence.quote_reached is not None and "misread" in possible:
        out.update(
            ("not_retrieved", "ranked_out", "page_missing")
            if evidence.quote_reached >= 1.0
            else ("misread",)
        )
    kept = tuple(cause for cause in possible if cause not in out)
    if evidence.contradicted_claims and "ignored" in kept:
        # To say the opposite of a passage the model must have used it.
        kept = tuple(dict.fromkeys("misread" if c == "ignored" else c for c in kept))
    return kept


# --- Live, without gold ---------------------------------------------------------------------


def diagnose_online(
    request: RagRequest,
    claims: Sequence[Claim],
    *,
    refused: bool | None = None,
    context_sufficient: bool | None = None,
    reported: bool = False,
) -> Diagnosis:
    """Return the likely finding on a live request, as far as it can be told without gold.

    Args:
        request: the request as traced.
        claims: the judged claims of its answer, empty where it was not judged.
        refused: whether the answer is a refusal; None looks at its words.
        context_sufficient: whether the context answers the question, by a scorer; None where
            there is no such score. For refusals, documents that hold nearly all the words of
            the question then count as sufficient.
        reported: whether the user complained.
    """
    if request.status == "error":
        return online.FAILED
    if not claims and (unreadable := _unreadable(request)):
        return unreadable
    if request.answer and (is_refusal(request.answer) if refused is None else refused):
        return _refusal(request, context_sufficient=context_sufficient)
    if not request.documents:
        return _without_context(request)
    verdicts = {claim.verdict for claim in claims}
    if "CONTRADICTED" in verdicts:
        return online.MISREAD
    if "NOT_FOUND" in verdicts:
        return _unsupported(request, context_sufficient=context_sufficient)
    if set(request.citations) - {document.rank for document in request.documents}:
        return online.WRONG_CITATION
    if not claims:
        return online.NOT_JUDGED
    return online.GROUNDED_BUT_REPORTED if reported else online.GROUNDED


def _unreadable(request: RagRequest) -> Diagnosis | None:
    if "tool_call_answer" in request.flags:
        return online.TOOL_CALL
    if not (request.question and request.answer):
        return online.CONTENT_MISSING
    return None


def _never_retrieved(request: RagRequest) -> bool:
    return "no_retrieval" in request.flags or not request.retriever_stages


def _without_context(request: RagRequest) -> Diagnosis:
    if _never_retrieved(request):
        return online.NO_RETRIEVAL
    return online.ALL_DROPPED if _dropped(request) else online.EMPTY_RETRIEVAL


def _refusal(request: RagRequest, *, context_sufficient: bool | None) -> Diagnosis:
    if not request.documents:
        if _never_retrieved(request):
            return online.REFUSED_WITHOUT_RETRIEVAL
        return online.REFUSED_ON_EMPTY_RETRIEVAL
    if context_sufficient is None and _speaks_of_the_question(request):
        return online.REFUSED_WRONGLY
    if context_sufficient is None:
        return online.REFUSED_CANNOT_TELL
    if context_sufficient:
        return online.REFUSED_WRONGLY
    return online.REFUSED_AFTER_DROPPING if _dropped(request) else online.REFUSED_HONESTLY


def _unsupported(request: RagRequest, *, context_sufficient: bool | None) -> Diagnosis:
    incomplete = {"truncated", "attributes_dropped", "partial"} & set(request.flags)
    if incomplete or any(not document.text for document in request.documents):
        return online.UNSUPPORTED_BY_A_PART
    if context_sufficient:
        return online.IGNORED
    if _dropped(request):
        return online.UNSUPPORTED_AFTER_DROPPING
    return online.UNSUPPORTED if context_sufficient is None else online.INVENTED


def _dropped(request: RagRequest) -> bool:
    """Whether a retriever returned more than what reached the context."""
    found = (stage.documents or 0 for stage in request.stages if stage.kind == "retriever")
    return max(found, default=0) > len(request.documents)


def _speaks_of_the_question(request: RagRequest) -> bool:
    """Whether one document holds nearly all the content words of the question."""
    code = language(request.question or "")
    asked = set(stems(fold(request.question or ""), code))
    if len(asked) < _FEWEST_WORDS:
        return False
    return any(
        len(asked.intersection(stems(fold(document.text or ""), code))) >= _COVERED * len(asked)
        for document in request.documents
    )
