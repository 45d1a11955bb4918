"""Genkit: `genkit:type`, `genkit:input` and `genkit:output` as JSON.

Source: https://github.com/firebase/genkit (tracing).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.conventions.common import present
from collector.conventions.facts import Facts, Kind
from collector.conventions.numbers import integer, text
from collector.conventions.payloads import nested
from collector.model import Span

NAME = "genkit"
FAMILIES = frozenset({"genkit:type", "genkit:name", "genkit:input", "genkit:metadata:subtype"})
_KINDS: dict[str, Kind] = {
    "model": "llm",
    "retriever": "retriever",
    "reranker": "reranker",
    "embedder": "embedding",
    "tool": "tool",
    "evaluator": "evaluation",
}


def read(span: Span) -> Facts | None:
    """Return the facts of a span of Genkit, None of any other."""
    attributes = span.attributes
    if "genkit:type" not in attributes:
        return None
    kind = _KINDS.get(str(attributes.get("genkit:metadata:subtype")), "chain")
    is_call = kind == "llm"
    given = present(attributes, "genkit:input")
    returned = present(attributes, "genkit:output")
    usage: Any = nested(returned[0]) if is_call and returned else None
    usage = usage.get("usage") if isinstance(usage, Mapping) else None
    usage = usage if isinstance(usage, Mapping) else {}
    return Facts(
        conventions=(NAME,),
        kind=kind,
        input=given,
        output=returned,
        input_messages=given if is_call else (),
        query=given,
        documents=returned if kind in ("retriever", "reranker", "tool") else (),
        model=text(attributes.get("genkit:name")) if is_call else None,
        input_tokens=integer(usage.get("inputTokens")),
        output_tokens=integer(usage.get("outputTokens")),
        cached_tokens=integer(usage.get("cachedContentTokens")),
        conversation_id=present(attributes, "genkit:sessionId"),
    )
