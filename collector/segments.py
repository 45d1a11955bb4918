"""Segments of traffic: the operator's rules first, then built-in kinds of questions."""

from __future__ import annotations

import re

from collector.config import SegmentsConfig
from collector.model import RagRequest, Trace
from collector.telemetry import BoundedLabel

_LOOKED_AT = 1000

# Order matters: the first kind whose pattern is found names the segment.
_BUILT_IN: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "comparison",
        re.compile(
            r"\b(vs\.?|versus|compared? (to|with)|difference between|differ(s|ent)? from"
            r"|better than|cheaper than|more than the)\b",
            re.IGNORECASE,
        ),
    ),
    (
        # A code such as E-4012, SKU_99 or INV2024-7: letters and digits in one token.
        "identifier",
        re.compile(
            r"\b(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Z])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)+\b"
        ),
    ),
    (
        "negation",
        re.compile(r"\b(not|never|without|except|isn't|don't|doesn't|can't|won't)\b", re.I),
    ),
    (
        "multi_part",
        re.compile(r"\?.+\?|\b(and (also|how|what|when|where|why|who)|as well as)\b", re.I),
    ),
)


class Segmenter:
    """Names the segment of a request; holds `max_segments` names, later ones are `other`."""

    def __init__(self, config: SegmentsConfig) -> None:
        self._rules = [
            (
                rule,
                re.compile(rule.question_matches, re.IGNORECASE) if rule.question_matches else None,
            )
            for rule in config.rules
        ]
        self._bounded = BoundedLabel(config.max_segments)

    def __call__(self, request: RagRequest, trace: Trace) -> str:
        """Return the segment: first matching rule, else a built-in kind, else `lookup`.

        A rule with `attribute` and no `equals` uses the attribute's value as the segment's name.
        """
        # The start tells the kind of a question; patterns on a very long one would take too long.
        question = (request.question or "")[:_LOOKED_AT]
        for rule, pattern in self._rules:
            if pattern is not None:
                if pattern.search(question):
                    return self._bounded(rule.name)
                continue
            value = _attribute(trace, rule.attribute or "")
            if value is None:
                continue
            if rule.equals is None:
                return self._bounded(value)
            if value == rule.equals:
                return self._bounded(rule.name)
        for name, kind in _BUILT_IN:
            if kind.search(question):
                return self._bounded(name)
        return self._bounded("lookup")


def _attribute(trace: Trace, key: str) -> str | None:
    """Find an attribute on any span or its resource; the earliest span that has it decides."""
    for span in trace.spans:
        value = span.attributes.get(key, span.resource.get(key))
        if value is not None:
            return str(value)[:60]
    return None
