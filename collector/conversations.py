"""One conversation out of the store, by a few small queries: one large one takes long to plan."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from collector.ports import Store

Row = Mapping[str, Any]

_UNJUDGED: dict[str, Any] = {
    "judgement_status": "",
    "score": None,
    "reason": None,
    "judged_at": None,
    "judged_version": 0,
    "claims": [],
}
_WITHOUT_SIGNALS: dict[str, Any] = {"signals": [], "conversation_signals": []}
_IDS = {"span": "span_ids", "response": "response_ids"}
_ONE_ID = {"trace": "trace_id", "message": "message_id", "conversation": "conversation_id"}


async def conversation_turns(
    store: Store, conversation: str, worst: str, *, most: int, fingerprint: str
) -> list[dict[str, Any]]:
    """Return the requests of a conversation, oldest first; of a long one those near its worst.

    Args:
        store: to read.
        conversation: its id, or the trace id of a request without one.
        worst: the trace id of its worst request.
        most: how many requests.
        fingerprint: whose judgements to show.

    Returns:
        Rows of the queries `conversation`, `verdicts_of` and `signals_on` side by side, each with
        `turns_total`: how many requests there are.
    """
    asked = {"conversation": conversation, "worst": worst, "turns": most}
    places = await store.rows("conversation_places", asked)
    if not places:
        return []
    trace_ids = sorted({place["trace_id"] for place in places})
    times = sorted({place["filed_at"] for place in places})
    requests, verdicts = await asyncio.gather(
        store.rows(
            "conversation", {"conversation": conversation, "times": times, "trace_ids": trace_ids}
        ),
        store.rows("verdicts_of", {"trace_ids": trace_ids, "fingerprint": fingerprint}),
    )
    signals = await store.rows("signals_on", _named_by(requests)) if requests else []
    judged, marked = _by_trace(verdicts), _by_trace(signals)
    return [
        {
            **request,
            **judged.get(request["trace_id"], _UNJUDGED),
            **marked.get(request["trace_id"], _WITHOUT_SIGNALS),
            "turns_total": places[0]["turns_total"],
        }
        for request in requests
    ]


def _named_by(requests: Iterable[Row]) -> dict[str, list[str]]:
    """Return what signals may name the requests by, as parameters of `signals_on`."""
    found = [(row["trace_id"], kind, name) for row in requests for kind, name in _names(row)]
    kinds = {**_IDS, **{kind: f"{field}s" for kind, field in _ONE_ID.items()}}
    return {
        "requests": [trace_id for trace_id, _, _ in found],
        "keys": [f"{kind} {name}" for _, kind, name in found],
        **{
            field: sorted({name for _, other, name in found if other == kind})
            for kind, field in kinds.items()
        },
    }


def _names(row: Row) -> Iterable[tuple[str, str]]:
    for kind, field in _ONE_ID.items():
        if row[field] is not None:
            yield kind, row[field]
    for kind, field in _IDS.items():
        for name in row[field]:
            yield kind, name


def _by_trace(rows: Iterable[Row]) -> dict[str, Row]:
    return {row["trace_id"]: row for row in rows}
