"""Events of golden candidates: how they become rows of `candidates`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from clickhouse_connect.driver.client import Client

from collector.candidates import CandidateEvent
from sinks.connection import translated
from sinks.rows import storable

_COLUMNS = CandidateEvent.__struct_fields__


def write(client: Client, events: Sequence[CandidateEvent]) -> None:
    """Store events, durably. Repeating it changes nothing.

    Raises:
        TransientDependencyError, PermanentDependencyError: see `translated`.
    """
    rows = [[storable(getattr(_flat(event), column)) for column in _COLUMNS] for event in events]
    with translated("writing candidates"):
        client.insert("candidates", rows, column_names=_COLUMNS)


def _flat(event: CandidateEvent) -> CandidateEvent:
    payload = msgspec.json.encode(storable(event.payload)).decode()
    return msgspec.structs.replace(event, payload=payload)
