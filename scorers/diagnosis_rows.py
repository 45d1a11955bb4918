"""The findings on an answered golden question, and the causes each leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from collector.labels import Cause


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """A named finding, the causes it leaves open, and one sentence on what to do.

    `cause` is set where only one is left; `possible` lists all that are, likeliest first.
    """

    name: str
    what_to_do: str
    possible: tuple[Cause, ...] = ()

    @property
    def cause(self) -> Cause | None:
        """The cause, None where there is none or the data cannot tell."""
        return self.possible[0] if len(self.possible) == 1 else None


Level = Literal["low", "high"]

RETRIEVAL_CAUSES: tuple[Cause, ...] = ("not_retrieved", "ranked_out", "page_missing")
"""Why a page may not have reached the context."""


def finding(name: str, what_to_do: str, *possible: Cause) -> Diagnosis:
    """Return a finding and the causes it leaves open, likeliest first."""
    return Diagnosis(name=name, what_to_do=what_to_do, possible=possible)


_RETRIEVAL_PROBLEM = finding(
    "retrieval_problem",
    "Fix retrieval first: chunking, hybrid search, reranking; the prompt cannot help here.",
    *RETRIEVAL_CAUSES,
)

TABLE: Mapping[tuple[Level | None, Level | None, Level | None], Diagnosis] = {
    # (context recall, faithfulness, correctness)
    ("low", "low", "low"): _RETRIEVAL_PROBLEM,
    ("low", "high", "low"): _RETRIEVAL_PROBLEM,
    ("low", None, "low"): _RETRIEVAL_PROBLEM,
    ("high", "low", "low"): finding(
        "context_ignored",
        "The right pages were there: tighten prompt and instructions, or change the model.",
        "ignored",
    ),
    ("high", "high", "low"): finding(
        "context_insufficient_or_misread",
        "Look at how the context is assembled: expand to neighbouring chunks, keep tables whole.",
        "misread",
        "not_retrieved",
        "ranked_out",
    ),
    ("low", "low", "high"): finding(
        "lucky_pretraining",
        "Treat it as a failure: the model knew it by heart and will fail on private data.",
        "pretraining",
    ),
    ("high", "high", "high"): finding("working", "Nothing to do."),
    ("low", "high", "high"): finding(
        "right_from_other_pages",
        "Check the gold sources of this question: other pages seem to answer it too.",
    ),
    ("high", "low", "high"): finding(
        "right_beyond_the_context",
        "Check the unsupported claims: true here, they came from memory or the judge erred.",
        "pretraining",
    ),
    ("low", "low", None): finding(
        "retrieval_missed_and_ungrounded",
        "Fix retrieval first, then ask for a refusal where the context holds no answer.",
        *RETRIEVAL_CAUSES,
    ),
    ("low", "high", None): finding(
        "retrieval_missed_but_grounded",
        "Fix retrieval first; a reference answer would show what the answer lacks.",
        *RETRIEVAL_CAUSES,
    ),
    ("low", None, "high"): finding(
        "right_without_gold_grounding_unknown",
        "Judge faithfulness to tell luck from other pages that answer it too.",
    ),
    ("low", None, None): finding(
        "retrieval_missed_rest_unknown",
        "Fix retrieval first, then judge the answer.",
        *RETRIEVAL_CAUSES,
    ),
    ("high", "low", None): finding(
        "ungrounded_correctness_unknown",
        "Read the unsupported claims; a reference answer would show whether they are true.",
        "ignored",
        "pretraining",
    ),
    ("high", "high", None): finding(
        "grounded_correctness_unknown", "Add a reference answer to see whether it is complete."
    ),
    ("high", None, "low"): finding(
        "wrong_with_gold_grounding_unknown",
        "Judge faithfulness to tell an ignored context from a misread one.",
        "ignored",
        "misread",
    ),
    ("high", None, "high"): finding(
        "right_with_gold_grounding_unknown", "Judge faithfulness to be sure it was no luck."
    ),
    ("high", None, None): finding("retrieved_rest_unknown", "Judge the answer."),
    (None, "low", "low"): finding(
        "wrong_and_ungrounded_retrieval_unknown",
        "Add gold sources to tell a retrieval problem from an ignored context.",
        "ignored",
        *RETRIEVAL_CAUSES,
    ),
    (None, "high", "low"): finding(
        "wrong_but_grounded_retrieval_unknown",
        "Add gold sources to tell a retrieval problem from a misread context.",
        *RETRIEVAL_CAUSES,
        "misread",
    ),
    (None, None, "low"): finding(
        "wrong_rest_unknown",
        "Add gold sources and judge faithfulness: either half may be at fault.",
        *RETRIEVAL_CAUSES,
        "ignored",
        "misread",
    ),
    (None, "low", "high"): finding(
        "right_but_ungrounded_retrieval_unknown",
        "Check the unsupported claims: true here, they came from memory or the judge erred.",
        "pretraining",
    ),
    (None, "high", "high"): finding(
        "right_and_grounded_retrieval_unknown", "Add gold sources to watch retrieval too."
    ),
    (None, None, "high"): finding(
        "right_rest_unknown", "Judge faithfulness and add gold sources to be sure it was no luck."
    ),
    (None, "low", None): finding(
        "ungrounded_rest_unknown",
        "Read the unsupported claims beside the context.",
        "ignored",
        *RETRIEVAL_CAUSES,
        "pretraining",
    ),
    (None, "high", None): finding(
        "grounded_rest_unknown", "Add gold sources and a reference answer to see what is missing."
    ),
    (None, None, None): finding("nothing_known", "Judge the answer and add gold to the question."),
}

REFUSED_RIGHTLY = finding("refused_rightly", "Nothing to do: the corpus holds no answer.")
ANSWERED_THE_UNANSWERABLE = finding(
    "answered_the_unanswerable",
    "Ask for a refusal where the context holds no answer, or add the page users look for.",
    "page_missing",
)
UNANSWERABLE_UNKNOWN = finding(
    "unanswerable_refusal_unknown", "Check whether the answer is a refusal: nothing else is right."
)
REFUSED: Mapping[Level | None, Diagnosis] = {
    "high": finding(
        "refused_wrongly",
        "The right pages were there: soften the instruction to refuse, or change the model.",
        "ignored",
    ),
    "low": finding(
        "refused_for_lack_of_context",
        "The refusal was honest: fix retrieval.",
        *RETRIEVAL_CAUSES,
    ),
    None: finding(
        "refused_retrieval_unknown",
        "Add gold sources to tell an honest refusal from a wrong one.",
        *RETRIEVAL_CAUSES,
        "ignored",
    ),
}

_RIGHT = {row.name for (_, _, correct), row in TABLE.items() if correct == "high"}
_WRONG = {row.name for (_, _, correct), row in TABLE.items() if correct == "low"}
_LUCKY = "lucky_pretraining"


def passed(name: str | None) -> bool | None:
    """Whether a golden question with this finding was answered well; None where it is unknown."""
    if name == REFUSED_RIGHTLY.name or (name in _RIGHT and name != _LUCKY):
        return True
    refused = {row.name for row in REFUSED.values()}
    if name in _WRONG | refused | {_LUCKY, ANSWERED_THE_UNANSWERABLE.name}:
        return False
    return None
