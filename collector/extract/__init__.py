"""One trace to one record of a user's request, or the reason why it is none.

Rules: the question is what the outermost span was asked, the answer what it answered; the last
chat call stands in where that span is mute. Documents are the final context of the model. Tokens
and cost are summed over leaf LLM calls only. What is not known is None, never empty or 0.
"""

from __future__ import annotations

from collector.conventions.payloads import Decoder
from collector.extract.content import read_content
from collector.extract.context import read_context
from collector.extract.record import record_of
from collector.extract.totals import llm_calls
from collector.extract.tree import Tree, build
from collector.model import NotARequest, RagRequest, Trace

__all__ = ["extract"]


def extract(trace: Trace, *, message_id_attribute: str | None = None) -> RagRequest | NotARequest:
    """Return the user-facing request that a trace tells of.

    Args:
        trace: spans and log records, in any order.
        message_id_attribute: name of the attribute with the app's own message id, if any.

    Returns:
        The request, or why the trace is none.
    """
    tree = build(trace)
    reason = _not_a_request(tree)
    if reason is not None:
        return reason
    decoder = Decoder()
    calls = llm_calls(tree)
    context = read_context(tree, decoder)
    content = read_content(tree, calls, decoder)
    if not calls and content.question is None and content.answer is None:
        return NotARequest(reason="no_content")
    return record_of(trace, tree, calls, context, content, decoder, message_id_attribute)


def _not_a_request(tree: Tree) -> NotARequest | None:
    kinds = {node.kind for node in tree.nodes} - {None}
    if not kinds:
        return NotARequest(reason="no_genai")
    if kinds <= {"noise"}:
        return NotARequest(reason="startup_noise")
    if kinds <= {"pending", "noise"}:
        return NotARequest(reason="pending")
    if all(entry.kind in ("evaluation", "noise", "pending") for entry in tree.entries):
        return NotARequest(reason="evaluation")
    if kinds <= {"embedding", "noise", "pending"}:
        return NotARequest(reason="embedding_only")
    return None
