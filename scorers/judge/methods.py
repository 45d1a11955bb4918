"""What a model is asked for each scorer: which calls, which prompts, and the score of the replies.

All of them share one protocol: texts that are checked one by one, each verdict with a quote that
is looked up. Only what is checked differs, and against what:

    faithfulness         claims of the answer                 documents
    citation_support     claims that cite something           the documents they cite
    answer_relevance     what the question wants to know      the answer
    context_sufficiency  what the question wants to know      documents
    correctness          claims of the reference answer       the answer
    context_precision    each document                        itself
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from collector.model import SECOND, Document, RagRequest
from scorers import faithfulness
from scorers.aspects import Scored, by_documents, cited_claims, precision_of, share_supported
from scorers.judge import replies
from scorers.judge.conversation import Conversation
from scorers.refusal import is_refusal


class Method(NamedTuple):
    """How one scorer asks.

    `prompts` and `schemas` are those it uses: they and `version` make up the fingerprint.
    `unscored` says why a request needs no call, None where it does.
    """

    scorer: str
    version: str
    prompts: tuple[str, ...]
    schemas: tuple[dict[str, Any], ...]
    unscored: Callable[[RagRequest], str | None]
    judge: Callable[[Conversation, RagRequest], Awaitable[Scored]]


def _claimless(request: RagRequest) -> str | None:
    reason = faithfulness.unscored_reason(request)
    return reason or ("no_claims" if is_refusal(request.answer or "") else None)


def _refused(request: RagRequest) -> str | None:
    return "no_claims" if is_refusal(request.answer or "") else None


def _nothing(request: RagRequest) -> str | None:
    return None


async def _faithfulness(conversation: Conversation, request: RagRequest) -> Scored:
    question = request.question or ""
    texts = await conversation.claims_of(question, request.answer or "")
    system = conversation.prompts.verdicts
    return share_supported(await conversation.check(system, question, texts, request.documents))


async def _citations(conversation: Conversation, request: RagRequest) -> Scored:
    system, question = conversation.prompts.verdicts, request.question or ""
    claims = []
    for texts, documents in by_documents(cited_claims(request), request.documents):
        claims += await conversation.check(system, question, texts, documents)
    return share_supported(claims)


async def _relevance(conversation: Conversation, request: RagRequest) -> Scored:
    answer = Document(rank=1, text=request.answer)
    return await _covered(conversation, request.question or "", [answer])


async def _sufficiency(conversation: Conversation, request: RagRequest) -> Scored:
    return await _covered(conversation, request.question or "", request.documents)


async def _covered(conversation: Conversation, question: str, documents: list[Document]) -> Scored:
    needs = await conversation.needs_of(question)
    if not needs:
        return Scored(None, [], "no_question")
    system = conversation.prompts.coverage
    return share_supported(await conversation.check(system, question, needs, documents))


async def _precision(conversation: Conversation, request: RagRequest) -> Scored:
    return precision_of(await conversation.rate(request.question or "", request.documents))


async def _refusal(conversation: Conversation, request: RagRequest) -> Scored:
    refuses = await conversation.refuses(request.question or "", request.answer or "")
    return Scored(float(refuses), [])


_COVERAGE = (replies.NEEDS_SCHEMA, replies.VERDICTS_SCHEMA)
_CLAIMS = (replies.CLAIMS_SCHEMA, replies.VERDICTS_SCHEMA)

FAITHFULNESS = Method(
    "faithfulness", "3", ("claims", "verdicts"), _CLAIMS, _claimless, _faithfulness
)
METHODS = {
    method.scorer: method
    for method in (
        FAITHFULNESS,
        FAITHFULNESS._replace(scorer=SECOND),
        FAITHFULNESS._replace(scorer="correctness"),
        Method(
            "citation_support",
            "1",
            ("verdicts",),
            (replies.VERDICTS_SCHEMA,),
            _nothing,
            _citations,
        ),
        Method("answer_relevance", "1", ("needs", "coverage"), _COVERAGE, _refused, _relevance),
        Method(
            "context_sufficiency", "1", ("needs", "coverage"), _COVERAGE, _nothing, _sufficiency
        ),
        Method(
            "context_precision",
            "1",
            ("helpful",),
            (replies.HELPFUL_SCHEMA,),
            _nothing,
            _precision,
        ),
        Method("refusal", "1", ("refusal",), (replies.REFUSAL_SCHEMA,), _nothing, _refusal),
    )
}
"""By the name of the scorer."""
