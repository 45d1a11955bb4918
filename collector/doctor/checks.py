"""What a monitored request should have, one check each: what is missing, and what that costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from collector.doctor import cures
from collector.doctor.cures import Cures
from collector.doctor.seen import Seen

ESSENTIAL_SHARE = 0.05
"""Share of requests from which on a lack of question, answer or document texts is grave."""


class Check(NamedTuple):
    """One thing to look for.

    `says` is the finding in words, `cost` what cannot be done for it.
    `grave_from` is the share of a service's requests from which on the check fails as a whole;
    None: never.
    """

    name: str
    says: str
    cost: str
    lacks: Callable[[Seen], bool]
    cures: Cures
    grave_from: float | None = None


def _unanswered(seen: Seen) -> bool:
    return not (seen.answer or seen.answered_by_tool_call or seen.failed)


def _without_documents(seen: Seen) -> bool:
    return seen.searched and not seen.documents and not seen.found_nothing and not seen.failed


def _unnamed(seen: Seen) -> bool:
    return seen.service is None or seen.service.startswith("unknown_service")


_UNJUDGED = "the answer cannot be judged"

CHECKS: tuple[Check, ...] = (
    Check(
        "question",
        "no question",
        _UNJUDGED,
        lambda seen: not seen.question and not seen.failed,
        cures.CONTENT,
        ESSENTIAL_SHARE,
    ),
    Check("answer", "no answer", _UNJUDGED, _unanswered, cures.CONTENT, ESSENTIAL_SHARE),
    Check(
        "documents",
        "nothing of what the search found",
        f"{_UNJUDGED}, retrieval not measured",
        _without_documents,
        cures.DOCUMENTS,
        ESSENTIAL_SHARE,
    ),
    Check(
        "document_texts",
        "no texts of the documents",
        _UNJUDGED,
        lambda seen: seen.documents and not seen.texts,
        cures.DOCUMENTS,
        ESSENTIAL_SHARE,
    ),
    Check(
        "retrieval",
        "no retrieval step",
        f"{_UNJUDGED} and retrieval not told from generation; fine where nothing is searched",
        lambda seen: not seen.searched,
        cures.RETRIEVAL,
        1.0,
    ),
    Check(
        "document_ids",
        "documents without id or source",
        "no recall against the golden set, no pages in the review",
        lambda seen: seen.documents and not seen.sources,
        cures.SOURCES,
    ),
    Check(
        "conversation",
        "no conversation id",
        "each request is a conversation of its own; rephrased questions are not seen",
        lambda seen: not seen.conversation,
        cures.CONVERSATION,
    ),
    Check(
        "user",
        "no user id",
        "feedback sent twice by one user counts twice",
        lambda seen: not seen.user,
        cures.USER,
    ),
    Check(
        "tokens",
        "no token counts",
        "cost beside quality is unknown",
        lambda seen: seen.called and not seen.tokens and not seen.failed,
        cures.TOKENS,
    ),
    Check(
        "model",
        "no name of the model",
        "two models cannot be told apart",
        lambda seen: seen.called and not seen.model,
        cures.MODEL,
    ),
    Check(
        "all_attributes",
        "attributes dropped at the limit of a span",
        "documents, session or tokens are lost at random",
        lambda seen: seen.attributes_dropped,
        cures.COUNT_LIMIT,
    ),
    Check(
        "whole_values",
        "texts cut off",
        "what was cut off cannot support a claim",
        lambda seen: seen.truncated,
        cures.LENGTH_LIMIT,
    ),
    Check(
        "whole_trace",
        "spans missing",
        "the record is read from a part",
        lambda seen: seen.partial,
        cures.PARENTS,
    ),
    Check("times", "no times", "latency is unknown", lambda seen: not seen.timed, cures.TIMES),
    Check(
        "sampling_rate",
        "sampled at a rate that is not said",
        "estimates lean towards what the sampler kept",
        lambda seen: "sampled_unsaid" in seen.hints,
        cures.SAMPLING,
    ),
    Check("service", "no service name", "services are mixed", _unnamed, cures.SERVICE),
)
