"""MLflow: `mlflow.spanType`, `mlflow.spanInputs`, `mlflow.spanOutputs`; every value is JSON.

Source: https://github.com/mlflow/mlflow (mlflow/tracing/constant.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.conventions.common import present
from collector.conventions.facts import Facts, Kind, Payloads
from collector.conventions.numbers import first_integer, real, text
from collector.conventions.payloads import loads, nested
from collector.model import Attributes, Span

NAME = "mlflow"
FAMILIES = frozenset({"mlflow"})
_KINDS: dict[str, Kind] = {
    "CHAT_MODEL": "llm",
    "LLM": "llm",
    "COMPLETION": "llm",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "EMBEDDING": "embedding",
    "TOOL": "tool",
    "AGENT": "agent",
    "EVALUATOR": "evaluation",
}
_USAGE_INPUT = ("input_tokens", "prompt_tokens")
_USAGE_OUTPUT = ("output_tokens", "completion_tokens")
_USAGE_CACHED = ("cache_read_input_tokens", "cached_tokens")


def read(span: Span) -> Facts | None:
    """Return the facts of a span with `mlflow.*` attributes, None of any other."""
    attributes = span.attributes
    if not any(key.startswith("mlflow.") for key in attributes):
        return None
    kind = _kind(attributes)
    is_call = kind == "llm"
    usage = _mapping(attributes, "mlflow.chat.tokenUsage") if is_call else {}
    given = _values(attributes, "mlflow.spanInputs")
    returned = _values(attributes, "mlflow.spanOutputs")
    return Facts(
        conventions=(NAME,),
        kind=kind,
        input=given,
        output=returned,
        input_messages=given if is_call else (),
        query=given,
        documents=returned if kind in ("retriever", "reranker", "tool") else (),
        model=_model(attributes) if is_call else None,
        provider=_string(attributes.get("mlflow.llm.provider")),
        input_tokens=first_integer(usage, _USAGE_INPUT),
        output_tokens=first_integer(usage, _USAGE_OUTPUT),
        cached_tokens=first_integer(usage, _USAGE_CACHED),
        cost_usd=real(_mapping(attributes, "mlflow.llm.cost").get("total_cost")),
        conversation_id=_quoted(attributes, "mlflow.trace.session"),
        user_id=_quoted(attributes, "mlflow.trace.user"),
    )


def _kind(attributes: Attributes) -> Kind | None:
    name = _string(attributes.get("mlflow.spanType"))
    return None if name is None else _KINDS.get(name.upper(), "chain")


def _values(attributes: Attributes, key: str) -> Payloads:
    """Return what a step was given or returned; JSON's null is nothing."""
    return tuple(value for value in present(attributes, key) if value != "null")


def _string(value: Any) -> str | None:
    """Return text that may still carry the quotes of its JSON form."""
    decoded = loads(value) if isinstance(value, str) else None
    return text(decoded if isinstance(decoded, str) else value)


def _quoted(attributes: Attributes, key: str) -> tuple[str, ...]:
    found = _string(attributes.get(key))
    return (found,) if found is not None else ()


def _mapping(attributes: Attributes, key: str) -> Mapping[str, Any]:
    value = nested(attributes.get(key))
    return value if isinstance(value, Mapping) else {}


def _model(attributes: Attributes) -> str | None:
    """Return the model, which a plain chat span has only in its reply or its request."""
    named = _string(attributes.get("mlflow.llm.model"))
    for key in ("mlflow.spanOutputs", "mlflow.spanInputs"):
        if named is None:
            named = text(_mapping(attributes, key).get("model"))
    return named
