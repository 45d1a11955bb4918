"""Spans of an assistant in OpenInference, and the records read from them."""

from __future__ import annotations

import json
import time
from typing import Any

from collector.extract import extract
from collector.model import NotARequest, RagRequest, Span
from tests.fakes.spans import trace

Attributes = dict[str, Any]


def record(*spans: Span, **options: Any) -> RagRequest:
    found = extract(trace(*spans), **options)
    assert isinstance(found, RagRequest)
    return found


def reason(*spans: Span) -> str:
    found = extract(trace(*spans))
    assert isinstance(found, NotARequest)
    return found.reason


def chain(asked: str | None = "Q?", answered: str | None = "A.", **more: Any) -> Attributes:
    return {
        "openinference.span.kind": "CHAIN",
        "input.value": asked,
        "output.value": answered,
    } | more


def llm(asked: str | None = "Q?", answered: str | None = "A.", **more: Any) -> Attributes:
    return {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": asked,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answered,
        "llm.token_count.prompt": 100,
        "llm.token_count.completion": 10,
    } | more


def retriever(*ids: str, query: str = "Q?") -> Attributes:
    documents = [{"id": i, "page_content": f"The text of page {i}."} for i in ids]
    return {
        "openinference.span.kind": "RETRIEVER",
        "input.value": query,
        "output.value": json.dumps({"documents": documents}),
    }


def reranker(*ids: str) -> Attributes:
    attributes: Attributes = {"openinference.span.kind": "RERANKER", "reranker.query": "Q?"}
    for rank, document in enumerate(ids):
        attributes[f"reranker.output_documents.{rank}.document.id"] = document
        attributes[f"reranker.output_documents.{rank}.document.score"] = 1.0 - rank / 10
    return attributes


def ids_of(request: RagRequest) -> list[str | None]:
    return [document.document_id for document in request.documents]


def asked_now(number: int, question: str, answer: str, page: str) -> list[Span]:
    """Return the spans of a request with one document; its ids come from a number of its own."""
    documents = json.dumps({"documents": [{"id": f"page-{number}", "page_content": page}]})
    search = {"openinference.span.kind": "RETRIEVER", "input.value": question}
    steps = [
        chain(question, answer),
        search | {"output.value": documents},
        llm(question, answer),
    ]
    now = time.time_ns()
    return [
        Span(
            trace_id=f"{number + 1:032x}",
            span_id=f"{number * 3 + index + 1:016x}",
            parent_span_id=None if index == 0 else f"{number * 3 + 1:016x}",
            name=f"step {index}",
            start_ns=now + index,
            end_ns=now + 1_000_000 - index,
            attributes=attributes,
        )
        for index, attributes in enumerate(steps)
    ]
