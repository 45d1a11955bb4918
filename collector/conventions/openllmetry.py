"""OpenLLMetry (Traceloop): `traceloop.*`, and the indexed `gen_ai.prompt.N.*` it began with.

Source: https://github.com/traceloop/openllmetry
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from collector.conventions.common import present, session_keys, user_keys
from collector.conventions.facts import Facts, Kind
from collector.conventions.flat import indexed
from collector.conventions.messages import Message, clean, messages_of, role_of
from collector.conventions.numbers import first_integer, first_text, text
from collector.conventions.payloads import loads, nested
from collector.model import Attributes, Span

NAME = "openllmetry"
FAMILIES = frozenset({"traceloop", "gen_ai", "llm"})
_KINDS: dict[str, Kind] = {
    "workflow": "chain",
    "task": "chain",
    "agent": "agent",
    "tool": "tool",
}
_REQUESTS: dict[str, Kind] = {
    "chat": "llm",
    "completion": "llm",
    "embedding": "embedding",
    "rerank": "reranker",
}
_SESSION_KEYS = session_keys("traceloop.association.properties.")
_USER_KEYS = user_keys("traceloop.association.properties.")
_RETRIEVER = re.compile(r"Retriever(\.|$)")
_RERANKER = re.compile(r"(Rerank(er)?|Ranker)(\.|$)")
_LLAMA_NODES = '["{\\"node\\"'
_NOT_CONTENT = frozenset({"replies", "None"})


def read(span: Span) -> Facts | None:
    """Return the facts of a span that follows OpenLLMetry, None of any other."""
    attributes = span.attributes
    if not any(key.startswith(_MARKS) for key in attributes):
        return None
    kind = _kind(span)
    entity_input = present(attributes, "traceloop.entity.input")
    entity_output = present(attributes, "traceloop.entity.output")
    return Facts(
        conventions=(NAME,),
        kind=kind,
        name=text(attributes.get("traceloop.entity.name")),
        input=(
            *(partial(_entity_input, value) for value in entity_input),
            *(partial(_inputs_in_output, value) for value in entity_output),
        ),
        output=tuple(partial(_entity_output, value) for value in entity_output),
        input_messages=(partial(_messages, attributes, "gen_ai.prompt", "user"),),
        output_messages=(partial(_messages, attributes, "gen_ai.completion", "assistant"),),
        query=entity_input,
        documents=() if kind == "embedding" else entity_output,
        model=first_text(attributes, ("gen_ai.response.model", "gen_ai.request.model")),
        input_tokens=first_integer(attributes, ("llm.usage.prompt_tokens",)),
        output_tokens=first_integer(attributes, ("llm.usage.completion_tokens",)),
        conversation_id=present(attributes, *_SESSION_KEYS),
        user_id=present(attributes, *_USER_KEYS),
    )


_MARKS = ("traceloop.", "gen_ai.prompt.", "gen_ai.completion.", "llm.request.type", "llm.usage.")


def _kind(span: Span) -> Kind | None:
    attributes = span.attributes
    request = attributes.get("llm.request.type")
    if isinstance(request, str) and request:
        return _REQUESTS.get(request, "llm")
    if attributes.get("gen_ai.operation.name") == "vector_db_retrieve":
        return "retriever"
    named = attributes.get("traceloop.span.kind")
    if not isinstance(named, str):
        return "llm" if any(key.startswith("gen_ai.prompt.") for key in attributes) else None
    name = attributes.get("traceloop.entity.name")
    if named == "task" and isinstance(name, str):
        return _task_kind(name, attributes)
    return _KINDS.get(named, "chain")


def _task_kind(name: str, attributes: Attributes) -> Kind:
    """Tell retrieval and reranking tasks by their class, or by nodes going in and out."""
    if _RETRIEVER.search(name):
        return "retriever"
    if _RERANKER.search(name):
        return "reranker"
    if "Embedding" in name:
        return "embedding"
    given, returned = (
        attributes.get("traceloop.entity.input"),
        attributes.get("traceloop.entity.output"),
    )
    takes_nodes = isinstance(given, str) and given.startswith('{"nodes": [')
    gives_nodes = isinstance(returned, str) and returned.startswith(_LLAMA_NODES)
    return "reranker" if takes_nodes and gives_nodes else "chain"


def _entity_input(value: Any) -> Any:
    """Unwrap `{"inputs": …}`; a stream has `{"input": ""}` there, which says nothing."""
    decoded = loads(value) if isinstance(value, str) else value
    if not isinstance(decoded, dict):
        return value
    return decoded.get("inputs", decoded)


def _entity_output(value: Any) -> Any:
    if value == "null":
        return None
    decoded = loads(value) if isinstance(value, str) else value
    if not isinstance(decoded, dict):
        return value if decoded is None else decoded
    return decoded.get("outputs", decoded)


def _inputs_in_output(value: Any) -> Any:
    """Return the inputs that a streamed chain repeats beside its output."""
    decoded = loads(value) if isinstance(value, str) else value
    extra = decoded.get("kwargs") if isinstance(decoded, dict) else None
    return extra.get("inputs") if isinstance(extra, dict) else None


def _messages(attributes: Attributes, prefix: str, default_role: str) -> list[Message]:
    items = list(indexed(attributes, prefix).values())
    if not items and f"{prefix}.content" in attributes:
        items = [{key: attributes.get(f"{prefix}.{key}") for key in ("role", "content")}]
    messages = []
    for item in items:
        role = role_of(item.get("role")) or default_role
        content = nested(item.get("content", item.get("text")))
        calls = any(key.startswith("tool_calls.") for key in item)
        if content is None:
            parts = indexed(item, "content").values()
            content = "".join(t for p in parts if isinstance(t := p.get("text"), str)) or None
        said = messages_of({"role": role, "content": content})[0].text if content else None
        if said in _NOT_CONTENT:
            said = None
        messages.append(Message(role, clean(said) if said else None, calls, role == "tool"))
    return messages
