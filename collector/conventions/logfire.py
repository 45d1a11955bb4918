"""pydantic-ai and Logfire: OpenTelemetry GenAI with names of their own, formats 1 to 5.

The agent's span sums its calls up. A `pending_span` announces a span still running and goes.
Source: https://github.com/pydantic/pydantic-ai (pydantic_ai/_instrumentation.py).
"""

from __future__ import annotations

from collector.conventions.common import present
from collector.conventions.facts import Facts, Kind
from collector.conventions.numbers import text
from collector.model import Span

NAME = "logfire"
FAMILIES = frozenset({"logfire", "pydantic_ai", "final_result", "gen_ai", "agent_name"})
_SCOPES = ("pydantic-ai", "logfire")
_MESSAGES = ("pydantic_ai.all_messages", "all_messages_events", "events")


def is_placeholder(span: Span) -> bool:
    """Tell whether a span only announces another one, with the attributes known by then."""
    return span.attributes.get("logfire.span_type") == "pending_span"


def read(span: Span) -> Facts | None:
    """Return the facts of a span of pydantic-ai or Logfire, None of any other."""
    attributes = span.attributes
    scope = span.scope_name
    if not (scope.startswith(_SCOPES) or "pydantic_ai.all_messages" in attributes):
        return None
    kind = _kind(span)
    if kind is None:
        return None
    messages = present(attributes, *_MESSAGES)
    return Facts(
        conventions=(NAME,),
        kind=kind,
        input=present(attributes, "tool_arguments"),
        output=present(attributes, "final_result", "tool_response"),
        input_messages=messages,
        output_messages=messages,
        documents=present(attributes, "tool_response"),
        model=text(attributes.get("model_name")),
    )


def _kind(span: Span) -> Kind | None:
    """Return the kind of a span that may lack the operation name of the later formats."""
    attributes = span.attributes
    if "gen_ai.operation.name" in attributes:
        return _OPERATIONS.get(str(attributes["gen_ai.operation.name"]))
    if "gen_ai.tool.name" in attributes or span.name.startswith("running tool"):
        return "tool"
    if "agent_name" in attributes or "pydantic_ai.all_messages" in attributes:
        return "agent"
    is_call = "gen_ai.request.model" in attributes or any(
        key.startswith("gen_ai.usage.") for key in attributes
    )
    return "llm" if is_call else None


_OPERATIONS: dict[str, Kind] = {
    "chat": "llm",
    "invoke_agent": "agent",
    "execute_tool": "tool",
    "embeddings": "embedding",
}
