"""One trace to one record of a user's request, or the reason why it is none.

Rules: the question is what the outermost span was asked, the answer what it answered; the last
chat call stands in where that span is mute. Documents are the final context of the model. Tokens
and cost are summed over leaf LLM calls only. What is not known is None, never empty or 0.
"""

from __future__ import annotations

from collector.conventions.facts import Kind
from collector.conventions.payloads import Decoder
from collector.extract.content import Content, read_content, system_prompt
from collector.extract.context import read_context
from collector.extract.record import record_of
from collector.extract.totals import llm_calls
from collector.extract.tree import Node, Tree, build
from collector.model import NotARequest, RagRequest, Trace

__all__ = ["extract", "is_own_judge"]


def extract(trace: Trace, *, message_id_attribute: str | None = None) -> RagRequest | NotARequest:
    """Return the user-facing request that a trace tells of.

    Args:
        trace: spans and log records, in any order.
        message_id_attribute: name of the attribute with the app's own message id, if any.

    Returns:
        The request, or why the trace is none.
    """
    tree = build(trace)
    kinds = {node.kind for node in tree.nodes} - {None}
    reason = _reason_by_kinds(tree, kinds)
    if reason is not None:
        return reason
    decoder = Decoder()
    calls = llm_calls(tree)
    context = read_context(tree, decoder)
    content = read_content(tree, calls, decoder)
    reason = _reason_by_content(kinds, calls, content, decoder)
    if reason is not None:
        return reason
    return record_of(trace, tree, calls, context, content, decoder, message_id_attribute)


_ASIDE: frozenset[Kind | None] = frozenset({"noise", "pending"})
_INDEXING = _ASIDE | {"embedding", "chain", "joiner"}


def _reason_by_kinds(tree: Tree, kinds: set[Kind | None]) -> NotARequest | None:
    if not kinds:
        return NotARequest(reason="no_genai")
    if kinds <= {"noise"}:
        return NotARequest(reason="startup_noise")
    if kinds <= _ASIDE:
        return NotARequest(reason="pending")
    if all(entry.kind == "evaluation" or entry.kind in _ASIDE for entry in tree.entries):
        return NotARequest(reason="evaluation")
    if kinds <= _ASIDE | {"embedding"}:
        return NotARequest(reason="embedding_only")
    return None


def _reason_by_content(
    kinds: set[Kind | None], calls: list[Node], content: Content, decoder: Decoder
) -> NotARequest | None:
    if content.question is None and "embedding" in kinds and kinds <= _INDEXING:
        return NotARequest(reason="embedding_only")
    if not calls and content.question is None and content.answer is None:
        return NotARequest(reason="no_content")
    lone_calls = kinds <= _ASIDE | {"llm"}
    if lone_calls and any(is_own_judge(system_prompt(call, decoder)) for call in calls):
        return NotARequest(reason="evaluation")
    return None


def is_own_judge(prompt: str | None) -> bool:
    """Tell whether a system prompt is one of our own judge's.

    Its calls come back as traces where the process is instrumented, and are not judged in turn.
    """
    return prompt is not None and prompt.startswith(_OWN_PROMPTS)


_OWN_PROMPTS = (
    "You take an answer apart into the factual claims it makes.",
    "You check claims against documents, strictly and mechanically.",
    "You check, strictly and mechanically, whether texts say what somebody wanted to know.",
    "You say of each document, strictly and mechanically, whether it helps to answer a question.",
    "You take a question apart into what it wants to know.",
    "You say whether an answer refuses.",
)
