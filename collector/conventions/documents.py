"""Retrieved documents in all their shapes, best first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from collector.conventions.numbers import first_text, real, text
from collector.conventions.payloads import nested
from collector.model import Document, ScoreKind

_MAX_DEPTH = 5
_MAX_DOCUMENTS = 10_000
_LISTS = (
    "documents",
    "docs",
    "source_documents",
    "source_nodes",
    "retrieved_documents",
    "retrieved_chunks",
    "retrievalResults",
    "retrieval_results",
    "nodes",
    "matches",
    "hits",
    "chunks",
    "passages",
    "points",
    "results",
    "sources",
    "records",
    "items",
    "value",
    "result",
    "output",
    "outputs",
    "response",
    "data",
    "content",
    "context",
)
_TEXTS = (
    "page_content",
    "pageContent",
    "content",
    "text",
    "document",
    "body",
    "passage",
    "chunk",
    "chunk_text",
    "snippet",
    "content_with_weight",
    "raw_content",
    "_content",
)
_IDS = ("id", "id_", "_id", "document_id", "doc_id", "node_id", "uuid", "pk", "key")
_DOCUMENT_IDS = ("document_id", "documentId", "doc_id", "docId")
_CHUNK_IDS = ("chunk_id", "chunkId", "segment_id", "node_id")
_SOURCES = (
    "source",
    "source_id",
    "file_path",
    "file_name",
    "filename",
    "document_name",
    "docnm_kwd",
    "doc_uri",
    "doc_name",
    "url",
    "uri",
    "link",
    "path",
    "href",
)
_TITLES = ("title", "document_title", "name")
_SCORES: tuple[tuple[str, ScoreKind], ...] = (
    ("relevance_score", "rerank"),
    ("rerank_score", "rerank"),
    ("relevanceScore", "rerank"),
    ("@search.rerankerScore", "rerank"),
    ("score", "unknown"),
    ("_score", "unknown"),
    ("@search.score", "unknown"),
    ("similarity", "similarity"),
    ("similarity_score", "similarity"),
    ("cosine_similarity", "similarity"),
)
_DISTANCES = ("distance", "_distance", "vector_distance", "$vecDist")
_INNER = ("node", "document", "doc", "_source", "payload", "fields", "entity")
_METADATA = ("metadata", "meta", "payload", "extra_info", "cmetadata", "_source", "properties")
_PART_KEYS = frozenset({"type", "text", "annotations", "citations"})
_NODE_REPR = re.compile(r"NodeWithScore\(.*?id_=['\"]?([^,)'\"]+).*?score=(-?[\d.eE+-]+|None)")


def documents_in(value: Any, *, strict: bool = False) -> list[Document] | None:
    """Return the documents of a decoded value, ranked in their order; None if it holds none.

    An empty list is a known-empty result. With `strict`, used where a value may be anything,
    only lists count whose items have a text and also an id, a source or a score.
    """
    found = _list_in(value, _MAX_DEPTH, strict=strict)
    if found is None:
        return None
    documents = []
    for rank, item in enumerate(found[:_MAX_DOCUMENTS], start=1):
        document = document_of(item, rank)
        if document is not None:
            documents.append(document)
    return documents if documents or not found else None


def document_of(value: Any, rank: int) -> Document | None:
    """Return one document, None if the value is none."""
    value = nested(value)
    if isinstance(value, str):
        return _of_text(value, rank)
    if not isinstance(value, Mapping):
        return None
    score, kind = _score_of(value)
    outer = value
    for key in _INNER:
        inner = nested(value.get(key))
        if isinstance(inner, Mapping) and key != "payload":
            value = {**inner, **_scalars(outer)} if key != "node" else inner
            break
    metadata = _metadata_of(value)
    if score is None and kind is None:
        score, kind = _score_of(metadata)
    document_id = first_text(value, _IDS) or first_text(outer, _IDS) or _first(metadata, _IDS)
    explicit = first_text(value, _DOCUMENT_IDS) or first_text(metadata, _DOCUMENT_IDS)
    chunk_id = first_text(value, _CHUNK_IDS) or first_text(metadata, _CHUNK_IDS)
    return Document(
        rank=rank,
        document_id=explicit if explicit is not None and chunk_id is not None else document_id,
        chunk_id=chunk_id,
        source=first_text(value, _SOURCES) or first_text(metadata, _SOURCES) or _location(value),
        title=first_text(value, _TITLES) or first_text(metadata, _TITLES),
        text=_text_of(value) or _text_of(metadata),
        score=score,
        score_kind=kind,
    )


def _first(values: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return first_text(values, keys)


def _scalars(value: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in value.items() if isinstance(v, str | int | float)}


def _of_text(value: str, rank: int) -> Document | None:
    match = _NODE_REPR.search(value)
    if match:
        return Document(rank=rank, document_id=match.group(1), score=real(match.group(2)))
    return Document(rank=rank, text=value) if value.strip() else None


def _list_in(value: Any, depth: int, *, strict: bool) -> list[Any] | None:
    value = nested(value)
    if depth <= 0:
        return None
    if isinstance(value, list | tuple):
        return _checked(list(value), depth, strict=strict)
    if not isinstance(value, Mapping):
        return None
    columns = _of_columns(value)
    if columns is not None:
        return columns
    for key in _LISTS:
        inner = nested(value.get(key))
        if isinstance(inner, list | tuple | Mapping):
            found = _list_in(inner, depth - 1, strict=strict)
            if found is not None and (found or key not in ("content", "context", "data")):
                return found
    return None


def _checked(items: list[Any], depth: int, *, strict: bool) -> list[Any] | None:
    """Return the items if they are documents."""
    if not items:
        return None if strict else items
    first = nested(items[0])
    if isinstance(first, list | tuple):
        return _list_in(first, depth - 1, strict=strict) if len(items) == 1 else None
    if isinstance(first, str):
        return None if strict else items
    if not isinstance(first, Mapping):
        return None
    if isinstance(first.get("text"), str) and first.keys() <= _PART_KEYS and strict:
        return _list_in(nested(first["text"]), depth - 1, strict=strict)
    return items if _looks_like_document(first, strict=strict) else None


def _looks_like_document(value: Mapping[str, Any], *, strict: bool) -> bool:
    if "role" in value or "tool_calls" in value:
        return False
    inner = next((i for k in _INNER if isinstance(i := nested(value.get(k)), Mapping)), {})
    metadata = _metadata_of(value)
    has_text = any(_text_of(part) for part in (value, inner, metadata))
    has_id = any(first_text(part, _IDS) for part in (value, inner))
    has_source = any(first_text(part, _SOURCES) for part in (value, inner, metadata))
    has_score = any(_score_of(part)[1] is not None for part in (value, metadata))
    if strict:
        return has_text and (has_id or has_source or has_score or bool(metadata))
    return has_text or has_id or has_source or has_score


def _metadata_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in _METADATA:
        found = nested(value.get(key))
        if isinstance(found, Mapping) and found:
            deeper = nested(found.get("metadata"))
            return {**found, **deeper} if isinstance(deeper, Mapping) else found
    return {}


def _text_of(value: Mapping[str, Any]) -> str | None:
    for key in _TEXTS:
        found = value.get(key)
        if isinstance(found, str) and found.strip():
            return found
        if isinstance(found, Mapping) and isinstance(found.get("text"), str):
            return text(found["text"])
    return None


def _location(value: Mapping[str, Any]) -> str | None:
    """Return the address inside Bedrock's `location` object."""
    location = value.get("location")
    if isinstance(location, Mapping):
        for part in location.values():
            if isinstance(part, Mapping):
                found = first_text(part, ("uri", "url"))
                if found is not None:
                    return found
    return None


def _score_of(value: Mapping[str, Any]) -> tuple[float | None, ScoreKind | None]:
    """Return the score and what it measures; of a distance only the kind."""
    for key, kind in _SCORES:
        number = real(value.get(key))
        if number is not None:
            return number, kind
    if any(real(value.get(key)) is not None for key in _DISTANCES):
        return None, "distance"
    return None, None


def _of_columns(value: Mapping[str, Any]) -> list[Any] | None:
    """Turn Chroma's columns `{ids: [[…]], documents: [[…]], …}` into rows."""
    if not isinstance(value.get("ids"), list) or not isinstance(value.get("documents"), list):
        return None
    columns = {}
    for name in ("ids", "documents", "metadatas", "distances", "scores"):
        column = value.get(name)
        if isinstance(column, list):
            nested_column = column and isinstance(column[0], list)
            columns[name] = column[0] if nested_column else column
    names = {"ids": "id", "documents": "text", "metadatas": "metadata", "distances": "distance"}
    return [
        {names.get(name, "score"): column[i] for name, column in columns.items() if i < len(column)}
        for i in range(len(columns["ids"]))
    ]
