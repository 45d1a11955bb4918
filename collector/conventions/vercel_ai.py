"""Vercel AI SDK: `ai.*`. An outer span per call of the app, an inner `do…` span per model call.

Known by its `ai.operationId` or `operation.name`, not by the name of its scope alone: version 7
sends OpenTelemetry GenAI attributes instead. Usage of outer spans is that of the last step only.
Source: https://github.com/vercel/ai (telemetry).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from collector.conventions.common import present, session_keys, user_keys
from collector.conventions.facts import Facts, Kind
from collector.conventions.messages import Message, content_text
from collector.conventions.numbers import first_integer, first_text, real, text
from collector.conventions.payloads import nested
from collector.model import Attributes, Span

NAME = "vercel-ai"
FAMILIES = frozenset({"ai", "operation", "gen_ai"})
_SCOPE = "ai"
_SESSION_KEYS = session_keys("ai.telemetry.metadata.")
_USER_KEYS = user_keys("ai.telemetry.metadata.")
_INPUT_TOKENS = ("ai.usage.inputTokens", "ai.usage.promptTokens")
_OUTPUT_TOKENS = ("ai.usage.outputTokens", "ai.usage.completionTokens")
_GENERATES = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")


def read(span: Span) -> Facts | None:
    """Return the facts of a span of the AI SDK, None of any other."""
    attributes = span.attributes
    operation = attributes.get("ai.operationId") or attributes.get("operation.name")
    if not isinstance(operation, str) or not operation.startswith("ai."):
        return Facts(conventions=(NAME,)) if span.scope_name == _SCOPE else None
    kind = _kind(operation.partition(" ")[0])
    is_call = kind == "llm"
    embedding = kind == "embedding"
    return Facts(
        conventions=(NAME,),
        kind=kind,
        name=text(attributes.get("ai.toolCall.name")),
        input=present(attributes, "ai.prompt", "ai.toolCall.args", "ai.value"),
        output=present(attributes, "ai.response.text", "ai.response.object", "ai.toolCall.result"),
        input_messages=present(attributes, "ai.prompt.messages"),
        output_messages=(partial(_reply, attributes),) if is_call else (),
        documents=present(attributes, "ai.toolCall.result", "ai.ranking"),
        model=first_text(attributes, ("ai.response.model", "ai.model.id")),
        provider=text(attributes.get("ai.model.provider")),
        input_tokens=None if embedding else first_integer(attributes, _INPUT_TOKENS),
        output_tokens=None if embedding else first_integer(attributes, _OUTPUT_TOKENS),
        cached_tokens=first_integer(attributes, ("ai.usage.cachedInputTokens",)),
        ttft_ms=real(attributes.get("ai.response.msToFirstChunk")),
        conversation_id=present(attributes, *_SESSION_KEYS),
        user_id=present(attributes, *_USER_KEYS),
        response_id=text(attributes.get("ai.response.id")),
    )


def _kind(operation: str) -> Kind:
    if operation.startswith("ai.embed"):
        return "embedding"
    if operation.startswith("ai.rerank"):
        return "reranker"
    if operation == "ai.toolCall":
        return "tool"
    return "llm" if operation.startswith(_GENERATES) else "chain"


def _reply(attributes: Attributes) -> list[Message]:
    calls = nested(attributes.get("ai.response.toolCalls"))
    said: Any = attributes.get("ai.response.text") or attributes.get("ai.response.object")
    found = content_text(said) if isinstance(said, str) else None
    return [Message("assistant", found, bool(calls))] if found or calls else []
