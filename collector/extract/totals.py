"""Tokens, cost, identities, errors and stages of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from collector.conventions.common import present
from collector.conventions.facts import Facts, Payloads
from collector.conventions.numbers import text
from collector.conventions.payloads import Decoder
from collector.extract.content import text_of
from collector.extract.context import Context
from collector.extract.tree import Node, Tree
from collector.model import RequestError, Stage, StageKind

_STAGES: frozenset[str | None] = frozenset({"retriever", "reranker", "llm", "embedding", "tool"})


def llm_calls(tree: Tree) -> list[Node]:
    """Return the LLM calls of a trace: one span a call, evaluations left out."""
    return [
        node
        for node in tree.nodes
        if node.kind == "llm" and not node.wraps_llm_call and not node.is_evaluation
    ]


def total(calls: Iterable[Node], value: Callable[[Facts], float | int | None]) -> float | None:
    """Return the sum over the calls that know a value, None if none does.

    Where the span of a call does not know it, the span around it may.
    """
    known = [v for call in calls if (v := _of_call(call, value)) is not None]
    return sum(known) if known else None


def _of_call(call: Node, value: Callable[[Facts], float | int | None]) -> float | int | None:
    found = value(call.facts) if call.facts else None
    for above in call.ancestors():
        if found is not None or above.kind != "llm" or above.facts is None:
            break
        if sum(child.kind == "llm" for child in above.children) > 1:
            break
        found = value(above.facts)
    return found


def first_of(
    nodes: Iterable[Node], payloads: Callable[[Facts], Payloads], keys: Iterable[str]
) -> str | None:
    """Return the first text that one of the nodes knows.

    Args:
        nodes: where to look, in order.
        payloads: what to look at in the facts of a node.
        keys: attributes to look at as well, on every span.
    """
    names = tuple(keys)
    for node in nodes:
        attributes = node.span.attributes
        own = payloads(node.facts) if node.facts else ()
        for payload in (*own, *present(attributes, *names)):
            found = text(payload() if callable(payload) else payload)
            if found is not None:
                return found
    return None


def request_error(tree: Tree, root: Node, answer: str | None) -> RequestError | None:
    """Return the error that ended the request, None if it ended well.

    It failed if its outermost span did, or if nothing was answered and the last step failed. A
    failed step below a root that is fine was recovered from. The deepest failed step says why.
    """
    failed = [node for node in tree.nodes if node.error]
    if not failed or not _ended_badly(tree, root, answer):
        return None
    stages = [node for node in failed if node.kind in _STAGES]
    deepest = max(stages or failed, key=lambda node: (node.depth, node.end_ns))
    return RequestError(
        stage=deepest.kind if deepest.kind in _STAGES else None,
        type=deepest.error.type if deepest.error else None,
        message=deepest.error.message if deepest.error else None,
    )


def _ended_badly(tree: Tree, root: Node, answer: str | None) -> bool:
    if root.span.status_code != 0:
        return root.span.status_code == 2
    entries = tree.entries
    if answer is not None:
        return len(entries) == 1 and entries[0].span.status_code == 2
    steps = [node for node in tree.nodes if node.kind in _STAGES]
    last = max(steps, key=lambda node: (node.end_ns, node.depth), default=None)
    return any(entry.error for entry in entries) or (last is not None and last.error is not None)


def stages_of(tree: Tree, calls: list[Node], context: Context, decoder: Decoder) -> list[Stage]:
    """Return the steps of a request in order of start; a step reported twice counts once."""
    kinds: dict[str, StageKind] = {}
    for node in tree.nodes:
        if node.kind == "embedding" and "embedding" not in node.below:
            kinds[node.id] = "embedding"
        elif node.kind == "tool":
            kinds[node.id] = "tool"
    kinds |= {node.id: "llm" for node in calls}
    kinds |= {node.id: "retriever" for node in context.retrievers}
    kinds |= {node.id: "reranker" for node in context.rerankers}
    return [
        _stage(node, kinds[node.id], context, decoder) for node in tree.nodes if node.id in kinds
    ]


def _stage(node: Node, kind: StageKind, context: Context, decoder: Decoder) -> Stage:
    facts = node.facts
    searches = kind in ("retriever", "reranker")
    query = None
    if facts is not None and searches:
        query = text_of(facts.query or facts.input, decoder, question=True)
    return Stage(
        kind=kind,
        name=(facts.name if facts else None) or node.span.name or None,
        query=query,
        latency_ms=node.latency_ms,
        documents=context.counts.get(node.id) if searches else None,
        error=(node.error.type or node.error.message or "error") if node.error else None,
    )
