"""OpenInference (Arize Phoenix): `openinference.span.kind`, `llm.*`, `retrieval.documents.N.*`.

Specification: https://github.com/Arize-ai/openinference/tree/main/spec
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import msgspec

from collector.conventions.common import from_metadata, present
from collector.conventions.documents import document_of, documents_in
from collector.conventions.facts import Facts, Kind, Payloads
from collector.conventions.flat import indexed
from collector.conventions.messages import Message, content_text, role_of
from collector.conventions.numbers import first_text, integer, real, text
from collector.conventions.payloads import loads
from collector.model import Attributes, Document, Span

NAME = "openinference"
FAMILIES = frozenset({"openinference", "llm", "retrieval", "reranker", "embedding", "output"})
_KINDS: dict[str, Kind] = {
    "LLM": "llm",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "EMBEDDING": "embedding",
    "TOOL": "tool",
    "AGENT": "agent",
    "CHAIN": "chain",
    "PROMPT": "chain",
    "EVALUATOR": "evaluation",
    "GUARDRAIL": "chain",
}
_RESPONSE_ID = re.compile(r'"id":\s*"((?:chatcmpl|resp|msg|gen)[-_][\w-]{1,100})"')
_STREAM_READER = ".write_response_to_history"
"""What LlamaIndex also calls an LLM: it only reads the stream of one."""
_FIRST_TOKEN = "First Token Stream Event"  # noqa: S105  a name of an event


def read(span: Span) -> Facts | None:
    """Return the facts of a span that follows OpenInference, None of any other."""
    attributes = span.attributes
    kind = _kind(span)
    if kind is None:
        return None
    sessions, users = from_metadata(attributes)
    output = present(attributes, "output.value")
    embedding = kind == "embedding"
    return Facts(
        conventions=(NAME,),
        kind=kind,
        name=text(attributes.get("tool.name")),
        input=present(attributes, "input.value"),
        output=output,
        input_messages=(partial(_messages, attributes, "llm.input_messages"),),
        output_messages=(partial(_messages, attributes, "llm.output_messages"),),
        query=present(attributes, "reranker.query", "input.value"),
        documents=_documents(attributes, kind, output),
        model=first_text(
            attributes, ("llm.model_name", "embedding.model_name", "reranker.model_name")
        ),
        provider=first_text(attributes, ("llm.provider", "llm.system")),
        input_tokens=None if embedding else integer(attributes.get("llm.token_count.prompt")),
        output_tokens=None if embedding else integer(attributes.get("llm.token_count.completion")),
        cached_tokens=integer(attributes.get("llm.token_count.prompt_details.cache_read")),
        cost_usd=real(attributes.get("llm.cost.total")),
        ttft_ms=_ttft(span) if kind == "llm" else None,
        conversation_id=present(attributes, "session.id") + sessions,
        user_id=present(attributes, "user.id") + users,
        response_id=_response_id(output) if kind == "llm" else None,
    )


def _kind(span: Span) -> Kind | None:
    attributes = span.attributes
    name = attributes.get("openinference.span.kind")
    if isinstance(name, str) and name:
        if span.name.endswith(_STREAM_READER):
            return "chain"
        return _KINDS.get(name.upper(), "chain")
    if not any(key.startswith(_MARKS) for key in attributes):
        return None
    if any(key.startswith("retrieval.documents.") for key in attributes):
        return "retriever"
    if any(key.startswith("reranker.") for key in attributes):
        return "reranker"
    return "llm"


_MARKS = (
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.token_count.",
    "llm.model_name",
    "retrieval.documents.",
    "reranker.",
)


def _messages(attributes: Attributes, prefix: str) -> list[Message]:
    return [_message(item) for item in indexed(attributes, prefix).values()]


def _message(item: dict[str, Any]) -> Message:
    content = content_text(item.get("message.content"))
    if content is None:
        parts = indexed(item, "message.contents").values()
        texts = [content_text(part.get("message_content.text")) for part in parts]
        content = "".join(t for t in texts if t) or None
    role = role_of(item.get("message.role")) or "assistant"
    calls = any(key.startswith("message.tool_calls.") for key in item)
    return Message(role, content, calls, role == "tool")


def _documents(attributes: Attributes, kind: Kind, output: Payloads) -> Payloads:
    if kind == "retriever":
        return (partial(_retrieved, attributes, "retrieval.documents", output), *output)
    if kind == "reranker":
        return (partial(_retrieved, attributes, "reranker.output_documents", output), *output)
    if kind == "tool":
        return output
    return ()


def _retrieved(attributes: Attributes, prefix: str, output: Payloads) -> list[Document] | None:
    """Return the flattened documents; ids they lack are taken from the output."""
    documents = []
    for index, item in indexed(attributes, prefix).items():
        fields = {key.removeprefix("document."): value for key, value in item.items()}
        document = document_of(fields, index + 1)
        if document is not None:
            documents.append(document)
    if not documents:
        return None
    if output and any(document.document_id is None for document in documents):
        value = loads(output[0]) if isinstance(output[0], str) else output[0]
        named = documents_in(value) or []
        if len(named) == len(documents):
            return [
                msgspec.structs.replace(document, document_id=other.document_id)
                if document.document_id is None
                else document
                for document, other in zip(documents, named, strict=True)
            ]
    return documents


def _ttft(span: Span) -> float | None:
    for event in span.events:
        if event.name == _FIRST_TOKEN and event.time_ns and span.start_ns:
            return max(0.0, (event.time_ns - span.start_ns) / 1e6)
    return None


def _response_id(output: Payloads) -> str | None:
    value = output[0] if output else None
    if not isinstance(value, str) or not value.startswith("{"):
        return None
    match = _RESPONSE_ID.search(value[:2000])
    return text(match.group(1)) if match else None
