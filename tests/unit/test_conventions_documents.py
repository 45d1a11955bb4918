"""Retrieved documents in the shapes of frameworks and databases."""

from __future__ import annotations

from typing import Any

import pytest

from collector.conventions.documents import documents_in
from collector.model import Document

LANGCHAIN = {
    "documents": [
        {
            "id": "kb-1",
            "page_content": "Pro costs 12.",
            "metadata": {"source": "a.pdf", "page": 3, "relevance_score": 0.9},
            "type": "Document",
        }
    ]
}
LLAMA_INDEX = [
    '{"node": {"id_": "kb-1", "metadata": {"file_name": "a.pdf"}, "text": "Pro costs 12.", '
    '"relationships": {"1": {"node_id": "doc-1"}}}, "score": 0.9}'
]
HAYSTACK = {"documents": [{"id": "kb-1", "content": "Pro costs 12.", "meta": {"source": "a.pdf"}}]}
CHROMA = {
    "ids": [["kb-1"]],
    "documents": [["Pro costs 12."]],
    "metadatas": [[{"source": "a.pdf"}]],
    "distances": [[0.2]],
}
PINECONE = {
    "matches": [
        {"id": "kb-1", "score": 0.9, "metadata": {"text": "Pro costs 12.", "source": "a.pdf"}}
    ]
}
QDRANT = [{"id": "kb-1", "score": 0.9, "payload": {"text": "Pro costs 12.", "source": "a.pdf"}}]
ELASTIC = {
    "hits": {
        "hits": [
            {"_id": "kb-1", "_score": 0.9, "_source": {"content": "Pro costs 12.", "url": "a.pdf"}}
        ]
    }
}
BEDROCK = {
    "retrievalResults": [
        {
            "content": {"text": "Pro costs 12.", "type": "TEXT"},
            "location": {"type": "S3", "s3Location": {"uri": "a.pdf"}},
            "score": 0.9,
        }
    ]
}
DIFY = [
    {
        "content": "Pro costs 12.",
        "title": "Prices",
        "metadata": {
            "document_id": "doc-1",
            "segment_id": "kb-1",
            "document_name": "a.pdf",
            "score": 0.9,
        },
    }
]
MCP = {
    "content": [{"type": "text", "text": '[{"id": "kb-1", "text": "Pro costs 12.", "url": "u"}]'}]
}


def only(value: Any, *, strict: bool = False) -> Document:
    (document,) = documents_in(value, strict=strict) or []
    return document


@pytest.mark.parametrize(
    "value",
    [LANGCHAIN, LLAMA_INDEX, HAYSTACK, CHROMA, PINECONE, QDRANT, ELASTIC, BEDROCK, DIFY, MCP],
    ids=["lc", "llama", "haystack", "chroma", "pinecone", "qdrant", "es", "bedrock", "dify", "mcp"],
)
def test_a_document_is_read_in_every_shape(value: Any) -> None:
    document = only(value, strict=value in (LANGCHAIN, HAYSTACK, PINECONE, DIFY, MCP))
    assert document.rank == 1
    assert document.text == "Pro costs 12."
    assert document.source in ("a.pdf", "u")
    assert value is BEDROCK or "kb-1" in (document.document_id, document.chunk_id)


def test_id_source_score_and_what_it_measures_are_read() -> None:
    assert only(LANGCHAIN) == Document(
        rank=1,
        document_id="kb-1",
        source="a.pdf",
        text="Pro costs 12.",
        score=0.9,
        score_kind="rerank",
    )


def test_a_node_id_is_the_id_and_its_parent_document_is_not() -> None:
    assert only(LLAMA_INDEX).document_id == "kb-1"
    assert only(LLAMA_INDEX).score == 0.9


def test_a_chunk_and_its_document_are_told_apart() -> None:
    document = only(DIFY)
    assert (document.document_id, document.chunk_id) == ("doc-1", "kb-1")
    assert (document.title, document.score) == ("Prices", 0.9)


def test_a_distance_is_never_a_score() -> None:
    document = only(CHROMA)
    assert (document.score, document.score_kind) == (None, "distance")


def test_a_score_of_zero_and_a_numeric_id_are_kept() -> None:
    document = only([{"id": 0, "text": "t", "score": 0}])
    assert (document.document_id, document.score) == ("0", 0.0)


def test_ranks_follow_the_order() -> None:
    found = documents_in([{"id": "b", "text": "x"}, {"id": "a", "text": "y"}])
    assert [(d.rank, d.document_id) for d in found or []] == [(1, "b"), (2, "a")]


def test_documents_without_text_id_or_score_are_allowed_by_the_convention() -> None:
    found = documents_in([{"id": "a"}, {"score": 0.5}])
    assert [(d.document_id, d.score) for d in found or []] == [("a", None), (None, 0.5)]


@pytest.mark.parametrize("value", [[], {"documents": []}, '{"documents": []}'])
def test_an_empty_list_is_known_to_be_empty(value: Any) -> None:
    assert documents_in(value) == []


@pytest.mark.parametrize("value", [{}, None, "text", 5, {"answer": "x"}, [[1, 2], [3, 4]]])
def test_other_values_hold_no_documents(value: Any) -> None:
    assert documents_in(value) is None


@pytest.mark.parametrize(
    "value",
    [
        {"status": "ok", "rows": 12},
        {"temperature": 21},
        [{"name": "Berlin", "temperature": 21}],
        "Bye my dear Bob!",
        [],
        ["a", "b"],
        [{"role": "user", "content": "x", "id": "1"}],
        [0.1, 0.2],
    ],
)
def test_the_result_of_any_tool_is_not_taken_for_documents(value: Any) -> None:
    assert documents_in(value, strict=True) is None


def test_the_result_of_a_searching_tool_is_documents() -> None:
    result = '[{"id": 1, "text": "Returns within 30 days.", "score": 0.91, "source": "a.pdf"}]'
    assert only(result, strict=True).source == "a.pdf"
    found = documents_in([{"title": "T", "href": "https://x.example", "body": "B"}], strict=True)
    assert [d.source for d in found or []] == ["https://x.example"]


def test_the_repr_of_a_node_gives_at_least_id_and_score() -> None:
    document = only(["<NodeWithScore(node=TextNode(id_=kb-2), score=0.95)>"])
    assert (document.document_id, document.score, document.text) == ("kb-2", 0.95, None)
