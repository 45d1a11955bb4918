"""Langfuse exports `{"trace": …, "observations": […]}` as spans with `langfuse.*` attributes.

The same attributes Langfuse's own SDK sends, so that one reader serves both. Source:
https://api.reference.langfuse.com (trace with full details).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from collector.conventions.numbers import integer, real, text
from collector.conventions.payloads import nested
from collector.model import Attributes, Span
from collector.otlp import clean_json

_SCOPE = "langfuse-export"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MICROSECONDS = 2**63 // 1000
_MAX_SECONDS = 1e7
_USAGE = (("input", "inputUsage"), ("output", "outputUsage"), ("total", "totalUsage"))


def recognises(value: Mapping[str, Any]) -> bool:
    """Tell whether a JSON object is such an export."""
    return isinstance(value.get("observations"), list) and (
        isinstance(value.get("trace"), Mapping) or "id" in value
    )


def spans_of(value: Mapping[str, Any]) -> list[Span]:
    """Return the observations as spans; ids stay as they are, missing ones are made up.

    Where a trace has not exactly one outermost observation, the trace itself becomes one.
    """
    value = clean_json(value)
    trace = value["trace"] if isinstance(value.get("trace"), Mapping) else value
    found = [
        {**o, "id": text(o.get("id")) or f"observation-{number}"}
        for number, o in enumerate(value["observations"])
        if isinstance(o, Mapping)
    ]
    first = found[0] if found else {}
    trace_id = text(trace.get("id")) or text(first.get("traceId"))
    if trace_id is None:
        return []
    ids = {str(o["id"]) for o in found}
    tops = [o for o in found if text(o.get("parentObservationId")) not in ids]
    whole = _trace_attributes(trace)
    resource = _resource(trace)
    if len(tops) == 1:
        return [_span(o, trace_id, None, whole if o is tops[0] else {}, resource) for o in found]
    root_id = f"trace-{trace_id}"
    top_ids = {str(o["id"]) for o in tops}
    spans = [
        _span(o, trace_id, root_id if str(o["id"]) in top_ids else None, {}, resource)
        for o in found
    ]
    return [_root(trace, trace_id, root_id, whole, resource), *spans]


def _root(
    trace: Mapping[str, Any], trace_id: str, root_id: str, whole: Attributes, resource: Attributes
) -> Span:
    started = _moment(trace.get("timestamp"))
    seconds = real(trace.get("latency"))
    lasted = timedelta(seconds=min(max(seconds or 0.0, 0.0), _MAX_SECONDS))
    ended = started + lasted if started and seconds is not None else None
    return Span(
        trace_id=trace_id,
        span_id=root_id,
        name=text(trace.get("name")) or "",
        start_ns=_ns(started),
        end_ns=_ns(ended),
        attributes={"langfuse.observation.type": "span", **whole},
        scope_name=_SCOPE,
        resource=resource,
    )


def _span(
    observation: Mapping[str, Any],
    trace_id: str,
    root_id: str | None,
    whole: Attributes,
    resource: Attributes,
) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=str(observation["id"]),
        parent_span_id=root_id or text(observation.get("parentObservationId")),
        name=text(observation.get("name")) or "",
        start_ns=_ns(_moment(observation.get("startTime"))),
        end_ns=_ns(_moment(observation.get("endTime"))),
        attributes={**_attributes(observation), **whole},
        scope_name=_SCOPE,
        resource=resource,
    )


def _trace_attributes(trace: Mapping[str, Any]) -> Attributes:
    metadata = nested(trace.get("metadata"))
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return _without_none(
        {
            "langfuse.trace.name": text(trace.get("name")),
            "langfuse.trace.input": trace.get("input"),
            "langfuse.trace.output": trace.get("output"),
            "langfuse.session.id": text(trace.get("sessionId")) or text(metadata.get("thread_id")),
            "langfuse.user.id": text(trace.get("userId")),
        }
    )


def _attributes(observation: Mapping[str, Any]) -> Attributes:
    metadata = nested(observation.get("metadata"))
    metadata = metadata if isinstance(metadata, Mapping) else {}
    original = nested(metadata.get("attributes"))
    original = original if isinstance(original, Mapping) else {}
    return _without_none(
        {
            "langfuse.observation.type": str(observation.get("type") or "span").lower(),
            "langfuse.observation.input": observation.get("input"),
            "langfuse.observation.output": observation.get("output"),
            "langfuse.observation.level": text(observation.get("level")),
            "langfuse.observation.status_message": text(observation.get("statusMessage")),
            "langfuse.observation.model.name": text(observation.get("model")),
            "langfuse.observation.usage_details": _usage(observation),
            "langfuse.observation.cost_details": _costs(observation),
            "langfuse.observation.completion_start_time": text(
                observation.get("completionStartTime")
            ),
            "langfuse.observation.metadata": {
                k: v for k, v in metadata.items() if isinstance(v, str | int | float)
            }
            or None,
            "gen_ai.conversation.id": text(original.get("gen_ai.conversation.id")),
        }
    )


def _usage(observation: Mapping[str, Any]) -> Attributes | None:
    """Return the token counts, None where all are 0, which stands for unknown."""
    usage = nested(observation.get("usageDetails"))
    if not isinstance(usage, Mapping) or not any(integer(v) for v in usage.values()):
        usage = {name: observation.get(key) for name, key in _USAGE}
    return dict(usage) if any(integer(v) for v in usage.values()) else None


def _costs(observation: Mapping[str, Any]) -> Attributes | None:
    """Return the costs in US dollars, None where all are 0, which stands for unknown."""
    costs = nested(observation.get("costDetails"))
    if not isinstance(costs, Mapping) or not any(real(v) for v in costs.values()):
        whole = observation.get("totalCost", observation.get("calculatedTotalCost"))
        costs = {"total": whole}
    return dict(costs) if any(real(v) for v in costs.values()) else None


def _resource(trace: Mapping[str, Any]) -> Attributes:
    metadata = nested(trace.get("metadata"))
    found = nested(metadata.get("resourceAttributes")) if isinstance(metadata, Mapping) else None
    resource = dict(found) if isinstance(found, Mapping) else {}
    environment = text(trace.get("environment"))
    return resource | ({"langfuse.environment": environment} if environment else {})


def _moment(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _ns(moment: datetime | None) -> int | None:
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1) if moment else 0
    return microseconds * 1000 if 0 < microseconds < _MAX_MICROSECONDS else None


def _without_none(attributes: Attributes) -> Attributes:
    return {key: value for key, value in attributes.items() if value is not None}
