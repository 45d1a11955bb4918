"""Experiments, test runs and judges: they look like requests, but no user is waiting for them.

Whatever convention such a span follows otherwise, it and all below it is evaluation. Sources:
promptfoo (src/tracing/genaiTracer.ts), Langfuse (SDK experiments and internal environments),
LangSmith (`langsmith.reference_example_id`), pydantic-evals (name of its scope), TruLens
(`ai.observability.span_type`), Ragas (name of its outermost chain).
"""

from __future__ import annotations

from collector.model import Span

_SCOPES = frozenset({"pydantic-evals"})
_NAMES = frozenset({"ragas evaluation"})
_MARKS = ("promptfoo.eval.id", "langsmith.reference_example_id", "langfuse.experiment.id")
_TRULENS = ("eval_root", "eval")
_ENVIRONMENT = "langfuse.environment"
_ENVIRONMENTS = ("langfuse", "llm-as-a-judge", "sdk-experiment")


def is_evaluation(span: Span) -> bool:
    """Tell whether a span says that it belongs to an evaluation, by any of their marks."""
    attributes = span.attributes
    if span.scope_name in _SCOPES or span.name in _NAMES:
        return True
    if not attributes.keys().isdisjoint(_MARKS):
        return True
    if attributes.get("ai.observability.span_type") in _TRULENS:
        return True
    environment = attributes.get(_ENVIRONMENT) or span.resource.get(_ENVIRONMENT)
    return isinstance(environment, str) and (
        environment in _ENVIRONMENTS or environment.startswith("langfuse-")
    )
