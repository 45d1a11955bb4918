"""A store in memory that also answers what inference asks of conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from collector.errors import DependencyError
from collector.model import INFERRED, RagRequest, Signal
from tests.fakes.store import MemoryStore


class ConversationStore(MemoryStore):
    """`MemoryStore` with the queries `turns` and `conversations_of_window`.

    The error in `dies`, if there is one, is raised by the next write of signals, after it was
    done where `dies_after_writing`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dies: DependencyError | None = None
        self.dies_after_writing = False

    async def write_signals(self, rows: Sequence[Signal]) -> None:
        error, self.dies = self.dies, None
        if error is None or self.dies_after_writing:
            await super().write_signals(rows)
        if error is not None:
            raise error

    async def rows(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        if query == "turns":
            return [
                row
                for talk in parameters["conversations"]
                for row in self._turns(talk)[-parameters["turns"] :]
            ]
        since, until = parameters["since"], parameters["until"]
        talks = {r.conversation_id for r in self._requests() if since <= started(r) < until}
        return [{"conversation_id": talk} for talk in sorted(talk for talk in talks if talk)]

    def inferred(self) -> set[tuple[str, str, float | None, str | None]]:
        """Return what a reader sees: trace, kind, confidence and reason, less what was revoked."""
        return {
            (s.trace_id or "", s.kind, s.confidence, s.reason)
            for s in self.signals.values()
            if s.source == INFERRED and not s.revoked
        }

    def _requests(self) -> Iterator[RagRequest]:
        return (row.request for row in self.by_trace.values())

    def _turns(self, talk: str) -> list[dict[str, Any]]:
        found = [self._turn(r) for r in self._requests() if r.conversation_id == talk]
        return sorted(found, key=lambda row: (row["at"], row["trace_id"]))

    def _turn(self, request: RagRequest) -> dict[str, Any]:
        held = [s for s in self.signals.values() if s.trace_id == request.trace_id]
        return {
            "conversation_id": request.conversation_id,
            "trace_id": request.trace_id,
            "at": started(request),
            "question": request.question,
            "answer": request.answer,
            "latency_ms": request.latency_ms,
            "clicked": len({s.document_id for s in held if is_click(s)}),
            "inferred": [
                (s.kind, s.confidence, s.reason)
                for s in held
                if s.source == INFERRED and not s.revoked
            ],
        }


def started(request: RagRequest) -> datetime:
    """Return when a request started; tests always say."""
    assert request.started_at is not None
    return request.started_at


def is_click(signal: Signal) -> bool:
    return signal.kind == "citation_click" and not signal.revoked
