"""Which searches ran, and which documents reached the model."""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec

from collector.conventions.documents import documents_in
from collector.conventions.facts import Kind, Payloads
from collector.conventions.payloads import Decoder
from collector.extract.tree import Node, Tree
from collector.model import Document, ScoreKind

_SEARCH_NAME = re.compile(r"retriev|search|lookup|knowledge|rerank", re.IGNORECASE)
_RERANK_NAME = re.compile(r"re-?rank", re.IGNORECASE)
_PRODUCERS: frozenset[Kind] = frozenset({"retriever", "reranker", "joiner"})


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What retrieval gave. `known_empty`: a search ran and is known to have found nothing."""

    documents: list[Document]
    retrievers: list[Node]
    rerankers: list[Node]
    known_empty: bool
    counts: dict[str, int]


def read_context(tree: Tree, decoder: Decoder) -> Context:
    """Return the searches of a trace and the documents its model was given."""
    found: dict[str, list[Document] | None] = {}
    by_role: dict[str, list[Node]] = {"retriever": [], "reranker": [], "joiner": []}
    for node in tree.nodes:
        role = None if node.is_evaluation else _role_of(node, decoder, found)
        if role is not None:
            by_role[role].append(node)
    ids = {node.id for nodes in by_role.values() for node in nodes}
    refining = {node.id for role in ("reranker", "joiner") for node in by_role[role]}
    documents = _final(tree, ids, refining, found)
    if documents is None:
        documents = _documents_of_entries(tree, decoder)
    return Context(
        documents=documents or [],
        retrievers=_innermost(tree, by_role["retriever"]),
        rerankers=_innermost(tree, by_role["reranker"]),
        known_empty=bool(ids) and not documents and [] in found.values(),
        counts={i: len(d) for i, d in found.items() if d is not None},
    )


def _innermost(tree: Tree, nodes: list[Node]) -> list[Node]:
    wrapping = tree.above_any({node.id for node in nodes})
    return [node for node in nodes if node.id not in wrapping]


def _role_of(node: Node, decoder: Decoder, found: dict[str, list[Document] | None]) -> str | None:
    """Return retriever, reranker, joiner or None, and note the documents of the node.

    A tool, and a chain step named like a search, is a retriever if it returned documents and no
    retriever ran below it.
    """
    facts = node.facts
    if facts is None:
        return None
    name = facts.name or node.span.name
    if facts.kind in _PRODUCERS:
        documents = None if node.error else _documents(facts.documents, decoder)
        found[node.id] = documents and _with_score_kind(documents, facts.kind, name)
        return facts.kind
    if facts.kind != "tool" and not (facts.kind == "chain" and _SEARCH_NAME.search(name)):
        return None
    payloads = facts.documents or facts.output
    if not payloads or not node.below.isdisjoint(_PRODUCERS):
        return None
    documents = _documents(payloads, decoder, strict=True)
    if not documents:
        return None
    role = "reranker" if _RERANK_NAME.search(name) else "retriever"
    found[node.id] = _with_score_kind(documents, role, name)
    return role


def _documents(
    payloads: Payloads, decoder: Decoder, *, strict: bool = False
) -> list[Document] | None:
    for payload in payloads:
        value = decoder.decode(payload)
        if isinstance(value, list) and value and isinstance(value[0], Document):
            return value
        documents = documents_in(value, strict=strict)
        if documents is not None:
            return documents
    return None


def _with_score_kind(documents: list[Document], role: str | None, name: str) -> list[Document]:
    """Say what plain scores measure, where the stage that gave them tells."""
    kind: ScoreKind | None = "rerank" if role == "reranker" else None
    if kind is None and "bm25" in name.lower():
        kind = "bm25"
    if kind is None:
        return documents
    return [
        msgspec.structs.replace(d, score_kind=kind) if d.score_kind == "unknown" else d
        for d in documents
    ]


def _final(
    tree: Tree,
    ids: set[str],
    refining: set[str],
    found: dict[str, list[Document] | None],
) -> list[Document] | None:
    """Return the documents that reached the model, None if no stage tells.

    The outermost of nested stages speaks for those below it. A stage that reranks or joins
    replaces what was found since the last LLM call; what several searches found is united.
    """
    known = {i for i in ids if found.get(i) is not None}
    covered = tree.below_any(known)
    telling = [node for node in tree.nodes if node.id in known and node.id not in covered]
    calls = sorted(node.end_ns for node in tree.nodes if node.kind == "llm")
    results: list[tuple[int, list[Document]]] = []
    for node in sorted(telling, key=lambda n: (n.end_ns, n.start_ns, n.id)):
        step = bisect_right(calls, node.start_ns)
        if node.id in refining:
            results = [result for result in results if result[0] != step]
        results.append((step, found[node.id] or []))
    if not results:
        return None
    return results[0][1] if len(results) == 1 else _united([found for _, found in results])


def _united(results: list[list[Document]]) -> list[Document]:
    """Return the distinct documents of several searches, ranked in the order they came."""
    seen: set[object] = set()
    united: list[Document] = []
    for document in (document for documents in results for document in documents):
        key = document.document_id or (document.source, document.text)
        if key not in seen:
            seen.add(key)
            united.append(msgspec.structs.replace(document, rank=len(united) + 1))
    return united


def _documents_of_entries(tree: Tree, decoder: Decoder) -> list[Document] | None:
    """Return documents that only the output of the whole request repeats."""
    for entry in tree.entries:
        for payload in entry.facts.output if entry.facts else ():
            value = decoder.decode(payload)
            if not isinstance(value, dict):
                continue
            for part in (value, *value.values()):
                if isinstance(part, dict):
                    documents = documents_in(part, strict=True)
                    if documents:
                        return documents
    return None
