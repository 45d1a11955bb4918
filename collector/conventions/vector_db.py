"""Searches in vector databases: `db.*` spans, results as `db.query.result` span events.

Spring AI puts them into `db.vector.query.*` attributes. One event is one hit, in order of rank.
A distance is better the smaller it is and never
becomes a score.
"""

from __future__ import annotations

from functools import partial

from collector.conventions.common import present
from collector.conventions.documents import document_of
from collector.conventions.facts import Facts
from collector.conventions.numbers import first_text
from collector.model import Document, Span, SpanEvent

NAME = "vector-db"
FAMILIES = frozenset({"db"})
_RESULTS = ("db.query.result", "db.search.result")
_SYSTEMS = frozenset(
    {"chroma", "chromadb", "pinecone", "qdrant", "weaviate", "milvus", "lancedb", "marqo"}
)
_SEARCHES = ("query", "search", "hybrid_search", "query_points", "get")


def read(span: Span) -> Facts | None:
    """Return the facts of a span that searched a vector database, None of any other."""
    attributes = span.attributes
    results = [event for event in span.events if event.name in _RESULTS]
    system = first_text(attributes, ("db.system", "db.system.name"))
    operation = first_text(attributes, ("db.operation", "db.operation.name"))
    vector = any(key.startswith("db.vector.query.") for key in attributes)
    searched = (vector or system in _SYSTEMS) and operation in _SEARCHES
    if not results and not searched:
        return None
    return Facts(
        conventions=(NAME,),
        kind="retriever",
        query=present(attributes, "db.vector.query.content"),
        documents=(
            *((partial(_hits, results),) if results else ()),
            *present(attributes, "db.vector.query.response.documents"),
        ),
    )


def _hits(events: list[SpanEvent]) -> list[Document]:
    documents = []
    for rank, event in enumerate(events, start=1):
        hit = {key.removeprefix(f"{event.name}."): v for key, v in event.attributes.items()}
        document = document_of(hit, rank)
        if document is not None:
            documents.append(document)
    return documents
