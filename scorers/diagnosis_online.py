"""The findings on a live request, and the causes each leaves open, likeliest first."""

from scorers.diagnosis_rows import RETRIEVAL_CAUSES, finding

FAILED = finding("request_failed", "Look at the stage that failed; there is no answer to judge.")
TOOL_CALL = finding(
    "cannot_tell_tool_call", "The answer is a call of a tool: trace the request that goes on."
)
CONTENT_MISSING = finding(
    "cannot_tell_content_missing", "Let the instrumentation send question and answer."
)
NOT_JUDGED = finding("cannot_tell_not_judged", "Judge this answer, or read it.")

NO_RETRIEVAL = finding(
    "no_retrieval",
    "Nothing was looked up: find out why the retriever was not called.",
    "pretraining",
)
EMPTY_RETRIEVAL = finding(
    "empty_retrieval",
    "The search found nothing, yet the model answered: ask for a refusal, then see whether a "
    "page on this exists.",
    "not_retrieved",
    "page_missing",
    "pretraining",
)
ALL_DROPPED = finding(
    "all_candidates_dropped",
    "The search found documents, yet none reached the context: look at the reranker and its limit.",
    "ranked_out",
    "pretraining",
)
REFUSED_WITHOUT_RETRIEVAL = finding(
    "refused_without_retrieval", "Nothing was looked up: find out why not.", "not_retrieved"
)
REFUSED_ON_EMPTY_RETRIEVAL = finding(
    "refused_on_empty_retrieval",
    "The refusal was honest: see whether a page on this exists, then fix the search or write it.",
    "not_retrieved",
    "page_missing",
)
REFUSED_WRONGLY = finding(
    "refused_wrongly",
    "The context seems to answer the question: soften the instruction to refuse, or change the "
    "model.",
    "ignored",
)
REFUSED_HONESTLY = finding(
    "refused_on_insufficient_context",
    "The refusal was honest: see whether a page on this exists, then fix the search or write it.",
    "not_retrieved",
    "page_missing",
)
REFUSED_AFTER_DROPPING = finding(
    "refused_after_dropped_candidates",
    "The refusal was honest, but candidates were dropped before the context: look among them.",
    "ranked_out",
    "not_retrieved",
    "page_missing",
)
REFUSED_CANNOT_TELL = finding(
    "refused_cannot_tell",
    "Read the context: without gold nobody knows whether it held the answer.",
    *RETRIEVAL_CAUSES,
    "ignored",
)

MISREAD = finding(
    "context_misread",
    "The answer says the opposite of its context: look at how the passage is cut and presented.",
    "misread",
)
IGNORED = finding(
    "context_ignored",
    "The context answers the question and the model wrote past it: tighten the instructions.",
    "ignored",
)
INVENTED = finding(
    "unsupported_on_insufficient_context",
    "The context did not hold the answer and the model filled the gap: fix retrieval, and ask "
    "for a refusal.",
    "not_retrieved",
    "page_missing",
    "pretraining",
)
UNSUPPORTED = finding(
    "unsupported_claims",
    "Read the claims beside the context: either the model wrote past it, or it lacked the page.",
    "ignored",
    "not_retrieved",
    "page_missing",
    "pretraining",
)
UNSUPPORTED_AFTER_DROPPING = finding(
    "unsupported_after_dropped_candidates",
    "Candidates were dropped before the context: look whether the evidence was among them.",
    "ranked_out",
    "ignored",
    "not_retrieved",
    "page_missing",
)
UNSUPPORTED_BY_A_PART = finding(
    "cannot_tell_context_incomplete",
    "Only a part of the context was traced, so the evidence may stand in the rest: let the "
    "instrumentation send all of it.",
)
WRONG_CITATION = finding(
    "wrong_citation",
    "The answer cites a document that was not in the context: check numbering and instructions.",
)
GROUNDED_BUT_REPORTED = finding(
    "grounded_but_reported",
    "Every claim stands in the context: see whether a page was missing, or the user was wrong.",
    "not_retrieved",
    "ranked_out",
    "misread",
    "page_missing",
    "answer_was_right",
)
GROUNDED = finding(
    "grounded", "Nothing to do; whether the answer is right and complete only gold would tell."
)
