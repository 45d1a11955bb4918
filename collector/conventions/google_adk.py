"""Google Agent Development Kit: model calls and tools as JSON in `gcp.vertex.agent.*`.

Source: https://github.com/google/adk-python (google/adk/telemetry).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from collector.conventions.common import present
from collector.conventions.facts import Facts, Kind
from collector.conventions.messages import Message, messages_of
from collector.conventions.numbers import integer, text
from collector.conventions.payloads import nested
from collector.model import Span

NAME = "google-adk"
FAMILIES = frozenset({"gcp"})
_PREFIX = "gcp.vertex.agent."
_EMPTY = ("{}", "")


def read(span: Span) -> Facts | None:
    """Return the facts of a span of the kit, None of any other."""
    attributes = span.attributes
    if not any(key.startswith(_PREFIX) for key in attributes):
        return None
    kind = _kind(span)
    request = attributes.get(f"{_PREFIX}llm_request")
    response = attributes.get(f"{_PREFIX}llm_response")
    reply = nested(response) if kind == "llm" else None
    usage = reply.get("usage_metadata") if isinstance(reply, Mapping) else None
    usage = usage if isinstance(usage, Mapping) else {}
    return Facts(
        conventions=(NAME,),
        kind=kind,
        input=present(attributes, f"{_PREFIX}tool_call_args"),
        output=present(attributes, f"{_PREFIX}tool_response"),
        input_messages=(partial(_contents, request),) if kind == "llm" else (),
        output_messages=(partial(_reply, response),) if kind == "llm" else (),
        documents=present(attributes, f"{_PREFIX}tool_response") if kind == "tool" else (),
        input_tokens=integer(usage.get("prompt_token_count")),
        output_tokens=integer(usage.get("candidates_token_count")),
        cached_tokens=integer(usage.get("cached_content_token_count")),
        conversation_id=present(attributes, f"{_PREFIX}session_id"),
        response_id=text(attributes.get(f"{_PREFIX}event_id")) if kind == "llm" else None,
    )


def _kind(span: Span) -> Kind | None:
    attributes = span.attributes
    if "gen_ai.tool.name" in attributes or span.name.startswith("execute_tool"):
        return "tool"
    if attributes.get(f"{_PREFIX}llm_request") not in (None, *_EMPTY):
        return "llm"
    if span.name.startswith(("invoke_agent", "agent_run", "invocation")):
        return "agent"
    return None


def _contents(request: Any) -> list[Message]:
    value = nested(request)
    contents = value.get("contents") if isinstance(value, Mapping) else None
    return messages_of(contents)


def _reply(response: Any) -> list[Message]:
    value = nested(response)
    content = value.get("content") if isinstance(value, Mapping) else None
    return messages_of([content]) if content else []
