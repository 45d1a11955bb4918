"""Keeps what the release gate said, so that dashboards can show it beside live quality."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from collector.errors import MalformedPayload
from collector.ports import Store


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate said of a run; of several results on the same two runs the last one counts.

    Attributes:
        old: run of the version in use.
        new: run of the version that is to replace it.
        decided_at: UTC.
        blocked: reasons why it may not; none where it may.
        warnings: block nothing.
    """

    old: str
    new: str
    decided_at: datetime
    blocked: list[str]
    warnings: list[str] = []


async def accept_gate(store: Store, item: Any) -> None:
    """Keep a gate result that came as JSON.

    Raises:
        MalformedPayload: it is none.
        DependencyError: the store does not take it.
    """
    try:
        result = msgspec.convert(item, GateResult)
    except msgspec.ValidationError as err:
        raise MalformedPayload(f"the gate result cannot be read: {err}") from err
    if result.decided_at.tzinfo is None:
        raise MalformedPayload("decided_at: has no time zone; write it as 2026-11-30T09:00:00Z")
    await write_gate(store, result)


async def write_gate(store: Store, result: GateResult) -> None:
    """Keep a gate result, for ever.

    Raises:
        DependencyError: the store does not take it.
    """
    name = msgspec.json.encode([result.new, result.old]).decode()
    decided = int(result.decided_at.timestamp() * 1e6)
    body = msgspec.structs.asdict(result) | {"decided_at": decided}
    await store.save_state(f"gate {name}", decided, msgspec.json.encode(body))
