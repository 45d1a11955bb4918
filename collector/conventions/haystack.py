"""Haystack's own tracer: `haystack.{component,pipeline,agent}.*`, values in JSON.

The stage follows from the class of the component. Source: https://github.com/deepset-ai/haystack
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from collector.conventions.common import present
from collector.conventions.facts import Facts, Kind, Payloads
from collector.conventions.numbers import first_integer, integer, text
from collector.conventions.payloads import nested
from collector.model import Attributes, Span

NAME = "haystack"
FAMILIES = frozenset({"haystack"})
_SUFFIXES: tuple[tuple[str, Kind], ...] = (
    ("Retriever", "retriever"),
    ("WebSearch", "retriever"),
    ("Ranker", "reranker"),
    ("DocumentJoiner", "joiner"),
    ("Generator", "llm"),
    ("Embedder", "embedding"),
    ("ToolInvoker", "tool"),
    ("Agent", "agent"),
    ("Evaluator", "evaluation"),
)
_PARTS: tuple[tuple[str, Kind], ...] = (
    ("haystack.pipeline", "chain"),
    ("haystack.agent", "agent"),
    ("haystack.agent.step.llm", "llm"),
    ("haystack.agent.step.tool", "tool"),
)
_START_UP = "haystack.tracing.auto_enable"


def read(span: Span) -> Facts | None:
    """Return the facts of a span of Haystack, None of any other."""
    if span.name == _START_UP:
        return Facts(conventions=(NAME,), kind="noise")
    attributes = span.attributes
    component = attributes.get("haystack.component.type")
    if isinstance(component, str):
        return _component(component, attributes)
    for prefix, kind in _PARTS:
        given = present(attributes, f"{prefix}.input", f"{prefix}.input_data")
        returned = present(attributes, f"{prefix}.output", f"{prefix}.output_data")
        if given or returned:
            name = text(attributes.get("haystack.tool.name")) if kind == "tool" else None
            return _call(given, returned) if kind == "llm" else _step(kind, name, given, returned)
    return None


def _component(component: str, attributes: Attributes) -> Facts:
    kind: Kind = next((kind for suffix, kind in _SUFFIXES if component.endswith(suffix)), "chain")
    given = present(attributes, "haystack.component.input")
    returned = present(attributes, "haystack.component.output")
    if kind == "llm":
        return _call(given, returned, component)
    return _step(kind, component, given, returned)


def _step(kind: Kind, name: str | None, given: Payloads, returned: Payloads) -> Facts:
    return Facts(
        conventions=(NAME,),
        kind=kind,
        name=name,
        input=given,
        output=returned,
        query=given,
        documents=returned if kind != "embedding" else (),
    )


def _call(given: Payloads, returned: Payloads, name: str | None = None) -> Facts:
    meta = reply_meta(nested(returned[0]) if returned else None)
    usage = nested(meta.get("usage"))
    usage = usage if isinstance(usage, Mapping) else {}
    details = usage.get("prompt_tokens_details")
    return Facts(
        conventions=(NAME,),
        kind="llm",
        name=name,
        input=given,
        output=returned,
        input_messages=given,
        output_messages=tuple(partial(_replies, value) for value in returned),
        model=text(meta.get("model")),
        input_tokens=first_integer(usage, ("prompt_tokens", "input_tokens")),
        output_tokens=first_integer(usage, ("completion_tokens", "output_tokens")),
        cached_tokens=integer(details.get("cached_tokens"))
        if isinstance(details, Mapping)
        else None,
    )


def reply_meta(output: Any) -> Mapping[str, Any]:
    """Return the meta data of the first reply of a generator's output, {} if there is none."""
    replies = output.get("replies") if isinstance(output, Mapping) else None
    first = replies[0] if isinstance(replies, list) and replies else None
    meta = first.get("meta", first.get("_meta")) if isinstance(first, Mapping) else None
    if meta is None and isinstance(output, Mapping):
        metas = output.get("meta")
        meta = metas[0] if isinstance(metas, list) and metas else None
    return meta if isinstance(meta, Mapping) else {}


def _replies(value: Any) -> Any:
    output = nested(value)
    return output.get("replies") if isinstance(output, Mapping) else None
