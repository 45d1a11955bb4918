"""Which searches ran, and which documents reached the model."""

from __future__ import annotations

import re

import msgspec

from collector.conventions.documents import documents_in
from collector.conventions.facts import Facts, Kind
from collector.conventions.payloads import Decoder
from collector.extract.tree import Node, Tree
from collector.model import Document, ScoreKind

_SEARCH_NAME = re.compile(r"retriev|search|lookup|knowledge|rerank", re.IGNORECASE)
_RERANK_NAME = re.compile(r"re-?rank", re.IGNORECASE)
_PRODUCERS: tuple[Kind, ...] = ("retriever", "reranker", "joiner")


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What retrieval gave. `known_empty`: a search ran and is known to have found nothing."""

    documents: list[Document]
    retrievers: list[Node]
    rerankers: list[Node]
    known_empty: bool
    counts: dict[str, int]


def read_context(tree: Tree, decoder: Decoder) -> Context:
    """Return the searches of a trace and the documents its model was given."""
    nodes = [node for node in tree.nodes if _serves(node)]
    found: dict[str, list[Document] | None] = {}
    retrievers, rerankers, joiners = [], [], []
    for node in nodes:
        role = _role_of(node, decoder, found)
        if role == "retriever":
            retrievers.append(node)
        elif role == "reranker":
            rerankers.append(node)
        elif role == "joiner":
            joiners.append(node)
    ids = {node.span.span_id for node in (*retrievers, *rerankers, *joiners)}
    documents = _final(tree, ids, {n.span.span_id for n in (*rerankers, *joiners)}, found)
    if documents is None:
        documents = _documents_of_entries(tree, decoder)
    ran = [found[i] for i in ids if i in found]
    return Context(
        documents=documents or [],
        retrievers=[n for n in retrievers if not _has_below(n, retrievers)],
        rerankers=[n for n in rerankers if not _has_below(n, rerankers)],
        known_empty=bool(retrievers) and not documents and any(d == [] for d in ran),
        counts={i: len(d) for i, d in found.items() if d is not None},
    )


def _serves(node: Node) -> bool:
    return node.kind is not None and not any(
        other.kind == "evaluation" for other in (node, *node.ancestors())
    )


def _has_below(node: Node, others: list[Node]) -> bool:
    ids = {other.span.span_id for other in others}
    return any(below.span.span_id in ids for below in node.descendants())


def _role_of(node: Node, decoder: Decoder, found: dict[str, list[Document] | None]) -> str | None:
    """Return retriever, reranker, joiner or None, and note the documents of the node.

    A tool, and a chain step named like a search, is a retriever if it returned documents and no
    retriever ran below it.
    """
    facts = node.facts
    if facts is None:
        return None
    if facts.kind in _PRODUCERS:
        found[node.span.span_id] = None if node.error else _documents(facts, decoder)
        return facts.kind
    named = _SEARCH_NAME.search(node.span.name) is not None
    if facts.kind != "tool" and not (named and facts.kind == "chain"):
        return None
    if (not facts.documents and not facts.output) or node.has_below(*_PRODUCERS):
        return None
    documents = _documents(facts, decoder, strict=True)
    if not documents:
        return None
    found[node.span.span_id] = documents
    return "reranker" if _RERANK_NAME.search(node.span.name) else "retriever"


def _documents(facts: Facts, decoder: Decoder, *, strict: bool = False) -> list[Document] | None:
    payloads = facts.documents or (facts.output if strict else ())
    for payload in payloads:
        value = decoder.decode(payload)
        if isinstance(value, list) and value and isinstance(value[0], Document):
            return _with_kind(value, facts)
        documents = documents_in(value, strict=strict)
        if documents is not None:
            return _with_kind(documents, facts)
    return None


def _with_kind(documents: list[Document], facts: Facts) -> list[Document]:
    """Say what the scores of a stage measure, where the stage tells."""
    kind: ScoreKind | None = None
    if facts.kind == "reranker":
        kind = "rerank"
    if kind is None:
        return documents
    return [
        msgspec.structs.replace(d, score_kind=kind) if d.score is not None else d for d in documents
    ]


def _final(
    tree: Tree,
    ids: set[str],
    refining: set[str],
    found: dict[str, list[Document] | None],
) -> list[Document] | None:
    """Return the documents that reached the model, None if no stage tells.

    The outermost of nested stages speaks for those below it. A stage that reranks or joins
    replaces what the stages before it found; what several searches found is united.
    """
    results: list[list[Document]] = []
    for node in _outermost(tree, ids):
        stages = _telling(node, ids, found)
        for stage in stages:
            documents = found[stage.span.span_id]
            if documents is None:
                continue
            if stage.span.span_id in refining and documents:
                results.clear()
            results.append(documents)
    if not results:
        return None
    return results[0] if len(results) == 1 else _united(results)


def _outermost(tree: Tree, ids: set[str]) -> list[Node]:
    """Return the stages that lie below no other one, in the order they ended."""
    nodes = [
        node
        for node in tree.nodes
        if node.span.span_id in ids
        and not any(above.span.span_id in ids for above in node.ancestors())
    ]
    return sorted(nodes, key=lambda node: (node.end_ns, node.start_ns, node.span.span_id))


def _telling(node: Node, ids: set[str], found: dict[str, list[Document] | None]) -> list[Node]:
    """Return the node if its documents are known, else the nearest ones below that tell."""
    if found.get(node.span.span_id) is not None:
        return [node]
    below = [child for child in node.descendants() if child.span.span_id in ids]
    told = [n for n in below if found.get(n.span.span_id) is not None]
    inside = {n.span.span_id for n in told}
    outer = [n for n in told if not any(a.span.span_id in inside for a in n.ancestors())]
    return sorted(outer, key=lambda n: (n.end_ns, n.start_ns, n.span.span_id))


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
    for entry in tree.entries():
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
