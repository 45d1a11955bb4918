"""Retrieved documents in all their shapes, best first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from collector.conventions.messages import REDACTED
from collector.conventions.numbers import first_text, real, text
from collector.conventions.payloads import nested
from collector.model import Document, ScoreKind

_MAX_DEPTH = 5
_MAX_DOCUMENTS = 10_000
_MAX_REPR_CHARS = 1000
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
_SCORE_KINDS: dict[str, ScoreKind] = {
    "relevance_score": "rerank",
    "rerank_score": "rerank",
    "relevanceScore": "rerank",
    "@search.rerankerScore": "rerank",
    "score": "unknown",
    "_score": "unknown",
    "@search.score": "unknown",
    "similarity": "similarity",
    "similarity_score": "similarity",
    "cosine_similarity": "similarity",
    "distance": "distance",
    "_distance": "distance",
    "vector_distance": "distance",
    "$vecDist": "distance",
}
_KEYS: dict[str, tuple[str, ...]] = {
    "text": _TEXTS,
    "id": _IDS,
    "document_id": _DOCUMENT_IDS,
    "chunk_id": _CHUNK_IDS,
    "source": _SOURCES,
    "title": _TITLES,
    "score": tuple(_SCORE_KINDS),
}
_ROLES: dict[str, list[tuple[str, int]]] = {
    name: [(role, keys.index(name)) for role, keys in _KEYS.items() if name in keys]
    for name in sorted({name for keys in _KEYS.values() for name in keys})
}
"""What a member may be by its name, and how it ranks among the names for the same."""
_INNER = ("node", "document", "doc", "_source", "fields", "entity", "kwargs")
_METADATA = ("metadata", "meta", "payload", "extra_info", "cmetadata", "_source", "properties")
_PART_KEYS = frozenset({"type", "text", "annotations", "citations"})
_NODE_REPR = re.compile(r"<?NodeWithScore\(.*?id_=['\"]?([^,)'\"]+).*?score=(-?[\d.eE+-]+|None)")


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
    found = _all_fields(value)
    score, kind = found.get("score", (None, None))
    chunk_id = found.get("chunk_id")
    document_id = found.get("document_id") if chunk_id is not None else None
    return Document(
        rank=rank,
        document_id=document_id or found.get("id"),
        chunk_id=chunk_id,
        source=found.get("source") or _location(value),
        title=found.get("title"),
        text=found.get("text"),
        score=score,
        score_kind=kind,
    )


def _all_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a document says of itself, else what its envelope or its metadata says."""
    inner = _inner_of(value)
    fields = _fields(_metadata_of(inner or value))
    fields.update(_fields(value))
    if inner:
        fields.update(_fields(inner))
    return fields


def _inner_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document inside an envelope such as LlamaIndex's `{"node": …, "score": …}`."""
    for key in _INNER:
        if key in value:
            inner = nested(value[key])
            if isinstance(inner, Mapping):
                return inner
    return {}


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known members of one object by their role, the best key of each role."""
    found: dict[str, Any] = {}
    ranks: dict[str, int] = {}
    for key, item in value.items():
        for role, rank in _ROLES.get(key, ()):
            if item is None or ranks.get(role, rank) < rank:
                continue
            read = _read(role, key, item)
            if read is not None:
                found[role], ranks[role] = read, rank
    return found


def _read(role: str, key: str, item: Any) -> Any:
    if role == "score":
        number = real(item)
        if number is None:
            return None
        kind = _SCORE_KINDS[key]
        return (None if kind == "distance" else number, kind)
    if role != "text":
        return text(item)
    if isinstance(item, Mapping):
        item = item.get("text")
    return item if isinstance(item, str) and item.strip() and item != REDACTED else None


def _of_text(value: str, rank: int) -> Document | None:
    match = _NODE_REPR.match(value[:_MAX_REPR_CHARS])
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
    if "lc" in value and isinstance(value.get("kwargs"), Mapping):
        value = value["kwargs"]  # an object of LangChain, in its own encoding
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
    found = _all_fields(value).keys()
    if not strict:
        return bool(found - {"title"})
    named = found & {"id", "source", "score"} or _metadata_of(value)
    return "text" in found and bool(named)


def _metadata_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in _METADATA:
        if key in value:
            found = nested(value[key])
            if isinstance(found, Mapping) and found:
                deeper = nested(found.get("metadata"))
                return {**found, **deeper} if isinstance(deeper, Mapping) else found
    return {}


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
