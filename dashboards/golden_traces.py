"""Requests of stored traces that answer a golden question: one of their spans carries its id."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any

from collector.extract import extract
from collector.model import NotARequest, RagRequest, Trace
from collector.otlp import decode_trace

ATTRIBUTE = "golden.id"
"""Span attribute that holds the id of a golden row, unless another is named."""


def answers_in(rows: Iterable[Mapping[str, Any]], attribute: str) -> dict[str, RagRequest]:
    """Return the requests by the golden id that their trace carries, the latest of each.

    Args:
        rows: of the query `traces_with`, oldest first.
        attribute: of a span, or of its resource.
    """
    found: dict[str, RagRequest] = {}
    for row in rows:
        trace = decode_trace(b64decode(row["body"]))
        question_id = _value(trace, attribute)
        request = extract(trace)
        if question_id is not None and not isinstance(request, NotARequest):
            found[question_id] = request
    return found


def _value(trace: Trace, attribute: str) -> str | None:
    values = (
        attributes[attribute]
        for span in trace.spans
        for attributes in (span.attributes, span.resource)
        if isinstance(attributes.get(attribute), str | int)
    )
    value = next(values, None)
    return None if value is None else str(value)
