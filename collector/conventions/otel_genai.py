"""OpenTelemetry GenAI semantic conventions, all versions since 1.27, on spans, events and logs.

Also read by way of it: Spring AI, Strands, Semantic Kernel and other emitters of `gen_ai.*`.
Specification: https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from collector.conventions.common import present, seconds_to_ms
from collector.conventions.facts import Facts, Kind, Payloads
from collector.conventions.messages import Message, content_text, messages_of, role_of
from collector.conventions.numbers import first_integer, first_text, real, text
from collector.conventions.payloads import nested
from collector.model import Attributes, Span, SpanEvent

NAME = "otel-genai"
FAMILIES = frozenset({"gen_ai"})
_OPERATIONS: dict[str, Kind] = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "completion": "llm",
    "message": "llm",
    "retrieval": "retriever",
    "retrieve": "retriever",
    "vector_db_retrieve": "retriever",
    "search": "retriever",
    "rerank": "reranker",
    "embeddings": "embedding",
    "embedding": "embedding",
    "execute_tool": "tool",
    "tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "agent",
    "invoke_workflow": "chain",
    "chain": "chain",
    "framework": "chain",
    "execute_task": "chain",
    "evaluation": "evaluation",
}
_DETAILS = ("gen_ai.client.inference.operation.details", "gen_ai.client.operation.details")
_CHAT_EVENTS = ("gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt", *_DETAILS)
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_CACHE_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_tokens",
)
_LLM_NAME = re.compile(r"^(chat|text_completion|generate_content|completion)\b")


def read(span: Span) -> Facts | None:
    """Return the facts of a span with `gen_ai.*` attributes or events, None of any other."""
    attributes = span.attributes
    kind = _kind(span)
    if kind is None and not any(key.startswith("gen_ai.") for key in attributes):
        return None
    embedding = kind == "embedding"
    return Facts(
        conventions=(NAME,),
        kind=kind,
        name=text(attributes.get("gen_ai.tool.name")),
        input=present(attributes, "gen_ai.tool.call.arguments", "gen_ai.prompt"),
        output=present(attributes, "gen_ai.tool.call.result", "gen_ai.completion"),
        input_messages=(
            *present(attributes, "gen_ai.input.messages", "gen_ai.request.messages"),
            *_event_payloads(span.events, _input_of_events),
            *present(attributes, "gen_ai.prompt"),
        ),
        output_messages=(
            *present(attributes, "gen_ai.output.messages"),
            *_event_payloads(span.events, _output_of_events),
            *present(attributes, "gen_ai.completion"),
        ),
        query=present(
            attributes,
            "gen_ai.retrieval.query.text",
            "gen_ai.reranker.query",
            "gen_ai.rerank.query",
        ),
        documents=_documents(span, kind),
        model=first_text(attributes, ("gen_ai.response.model", "gen_ai.request.model")),
        provider=first_text(attributes, ("gen_ai.provider.name", "gen_ai.system")),
        input_tokens=None if embedding else first_integer(attributes, _INPUT_TOKENS),
        output_tokens=None if embedding else first_integer(attributes, _OUTPUT_TOKENS),
        cached_tokens=first_integer(attributes, _CACHE_READ),
        cost_usd=real(attributes.get("operation.cost", attributes.get("gen_ai.usage.cost"))),
        ttft_ms=_ttft(attributes),
        response_id=text(attributes.get("gen_ai.response.id")),
    )


def _kind(span: Span) -> Kind | None:
    attributes = span.attributes
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str) and operation:
        return _OPERATIONS.get(operation.lower())
    name = span.name
    if name.startswith(("invoke_agent", "execute_event_loop")):
        return "agent" if name.startswith("invoke_agent") else "chain"
    if "gen_ai.tool.name" in attributes or name.startswith("execute_tool"):
        return "tool"
    if "gen_ai.retrieval.documents" in attributes or name.startswith("retrieval "):
        return "retriever"
    if any(event.name in _CHAT_EVENTS for event in span.events):
        return "llm"
    if _LLM_NAME.match(name) or any(key.startswith(_LLM_MARKS) for key in attributes):
        return "llm"
    return None


_LLM_MARKS = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.usage.",
    "gen_ai.response.model",
)


def _documents(span: Span, kind: Kind | None) -> Payloads:
    if kind == "tool":
        events = [e.attributes for e in span.events if e.name in ("gen_ai.choice",)]
        results = tuple(found for e in events for found in present(e, "message"))
        return present(span.attributes, "gen_ai.tool.call.result") + results
    return present(
        span.attributes,
        "gen_ai.rerank.output_documents",
        "gen_ai.retrieval.documents",
        "gen_ai.retrieval.result",
    )


def _ttft(attributes: Attributes) -> float | None:
    milliseconds = real(attributes.get("gen_ai.server.time_to_first_token"))
    if milliseconds is not None:
        return milliseconds
    return seconds_to_ms(attributes.get("gen_ai.response.time_to_first_chunk"))


def _event_payloads(events: list[SpanEvent], find: Any) -> Payloads:
    chat = [event for event in events if event.name.startswith("gen_ai.")]
    return (partial(find, chat),) if chat else ()


def _input_of_events(events: list[SpanEvent]) -> list[Message]:
    messages: list[Message] = []
    for event in events:
        attributes = event.attributes
        if event.name in _DETAILS:
            found = messages_of(attributes.get("gen_ai.input.messages"))
        elif event.name == "gen_ai.content.prompt":
            found = messages_of(attributes.get("gen_ai.prompt")) or _one(
                "user", attributes.get("gen_ai.prompt")
            )
        elif event.name in _EVENT_ROLES:
            found = _of_event(attributes, _EVENT_ROLES[event.name])
        else:
            continue
        messages += found
    return messages


def _output_of_events(events: list[SpanEvent]) -> list[Message]:
    messages: list[Message] = []
    for event in events:
        attributes = event.attributes
        if event.name in _DETAILS:
            messages += messages_of(attributes.get("gen_ai.output.messages"))
        elif event.name == "gen_ai.content.completion":
            messages += _one("assistant", attributes.get("gen_ai.completion"))
        elif event.name == "gen_ai.choice":
            message = nested(
                attributes.get(
                    "message", attributes.get("content", attributes.get("gen_ai.event.content"))
                )
            )
            messages += (
                messages_of({"role": "assistant", "content": message})
                if isinstance(message, str | list)
                else messages_of(message)
            )
    return messages


def _of_event(attributes: Attributes, role: str) -> list[Message]:
    said = role_of(attributes.get("role")) or role
    content = nested(attributes.get("content", attributes.get("gen_ai.event.content")))
    if isinstance(content, dict) and ("content" in content or "role" in content):
        return messages_of({"role": said, **content})
    return messages_of({**attributes, "role": said, "content": content})


def _one(role: str, content: Any) -> list[Message]:
    found = content_text(nested(content))
    return [Message(role, found)] if found else []
