"""One module per tracing convention, and the registry that finds out which a span follows.

A convention is a module with `NAME`, `FAMILIES` (first parts of the attribute names it owns)
and `read(span) -> Facts | None`. Detection is per span, since one trace often mixes them. Where
several recognise a span, the order of `CONVENTIONS` decides and later ones fill the gaps.
"""

from __future__ import annotations

from types import ModuleType

import msgspec

from collector.conventions import (
    genkit,
    google_adk,
    haystack,
    langfuse,
    langsmith,
    logfire,
    mlflow,
    openinference,
    openllmetry,
    otel_genai,
    vector_db,
    vercel_ai,
)
from collector.conventions.evaluations import is_evaluation
from collector.conventions.facts import Facts, merge
from collector.model import Span

CONVENTIONS: tuple[ModuleType, ...] = (
    openinference,
    langfuse,
    mlflow,
    langsmith,
    vercel_ai,
    openllmetry,
    haystack,
    logfire,
    google_adk,
    genkit,
    otel_genai,
    vector_db,
)
"""All conventions, the most specific first."""


def facts_of(span: Span) -> Facts | None:
    """Return what a span says, None for one that no convention recognises.

    Log records of the span count as its events; see `collector.extract`.
    """
    if logfire.is_placeholder(span):
        return Facts(conventions=(logfire.NAME,), kind="pending")
    families = {key.partition(".")[0] for key in span.attributes}
    families.add(span.name.partition(".")[0])
    for event in span.events:
        families.add(event.name.partition(".")[0])
    facts: Facts | None = None
    for convention in CONVENTIONS:
        if not convention.FAMILIES.isdisjoint(families):
            read: Facts | None = convention.read(span)
            if read is not None:
                facts = read if facts is None else merge(facts, read)
    if is_evaluation(span):
        facts = facts or Facts(conventions=("evaluation",))
        return msgspec.structs.replace(facts, kind="evaluation")
    if facts is not None and facts.kind is None and (facts.input or facts.output):
        return msgspec.structs.replace(facts, kind="chain")
    return facts
