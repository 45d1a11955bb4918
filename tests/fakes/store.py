"""A store in memory that keeps the promises of the port, and fails on demand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from collector.candidates import CandidateEvent
from collector.errors import DependencyError
from collector.labels import Label
from collector.model import Calibration, Decision, Judgement, RagRequest, Signal, StoredRequest
from collector.model_evaluation import EvalRecord
from collector.ports import Fragment, Known
from collector.signals import complained_about, is_complaint

AT = datetime(2026, 11, 4, 12, 0, tzinfo=UTC)
"""A Wednesday noon that tests count from."""


def decision(**changes: Any) -> Decision:
    """Return a decision to judge everything, with changes."""
    plain = Decision(
        sampled=True, probability=1.0, uniform=0.25, stratum="all", salt="s1", decided_at=AT
    )
    return msgspec.structs.replace(plain, **changes)


def stored(
    trace_id: str,
    version: int = 1,
    *,
    started_at: datetime | None = AT,
    decided: Decision | None = None,
    telemetry: bytes = b"",
    lexical_score: float | None = None,
    ineligible: str | None = None,
    **request: Any,
) -> StoredRequest:
    """Return a stored request; further keywords are fields of the request."""
    return StoredRequest(
        request=RagRequest(trace_id=trace_id, started_at=started_at, **request),
        version=version,
        decision=decided or decision(),
        lexical_score=lexical_score,
        ineligible=ineligible,
        telemetry=telemetry,
    )


class MemoryStore:
    """`collector.ports.Store` in memory.

    `writes` counts calls that changed something; `results` holds what `rows` answers, by query.
    """

    def __init__(self) -> None:
        self.by_trace: dict[str, StoredRequest] = {}
        self.kept: dict[str, Fragment] = {}
        self.judgements: dict[tuple[str, str, str], Judgement] = {}
        self.signals: dict[str, Signal] = {}
        self.calibrations: list[Calibration] = []
        self.candidate_events: dict[str, CandidateEvent] = {}
        self.labels: dict[tuple[str, str, str], Label] = {}
        self.evaluations: list[EvalRecord] = []
        self.states: dict[str, tuple[int, bytes]] = {}
        self.results: dict[str, list[dict[str, Any]]] = {}
        self.writes = 0
        self.closed = False
        self._failures: deque[tuple[DependencyError, bool]] = deque()

    def fail_next(
        self, writes: int, error: DependencyError, *, after_writing: bool = False
    ) -> None:
        """Let the next writes raise, before anything is stored or, in doubt, after it was."""
        self._failures.extend([(error, after_writing)] * writes)

    async def known(self, trace_ids: Sequence[str]) -> dict[str, Known]:
        """See `Store.known`."""
        found = ((trace_id, self.by_trace.get(trace_id)) for trace_id in trace_ids)
        return {
            trace_id: Known(row.version, row.decision, row.telemetry, row.ineligible)
            for trace_id, row in found
            if row is not None
        }

    async def fragments(self, trace_ids: Sequence[str]) -> dict[str, bytes]:
        """See `Store.fragments`."""
        return {i: self.kept[i].telemetry for i in trace_ids if i in self.kept}

    async def keep_fragments(self, fragments: Sequence[Fragment]) -> None:
        """See `Store.keep_fragments`."""
        for fragment in fragments:
            before = self.kept.get(fragment.trace_id, fragment)
            self.kept[fragment.trace_id] = max(before, fragment, key=lambda one: one.version)

    async def requests(self, trace_ids: Sequence[str]) -> dict[str, StoredRequest]:
        """See `Store.requests`."""
        return {
            trace_id: msgspec.structs.replace(self.by_trace[trace_id], telemetry=b"")
            for trace_id in trace_ids
            if trace_id in self.by_trace
        }

    async def write_requests(self, rows: Sequence[StoredRequest]) -> None:
        """See `Store.write_requests`."""
        self._write(lambda: self._put_requests(rows))

    async def write_judgements(
        self, rows: Sequence[Judgement], started_at: dict[str, datetime]
    ) -> None:
        """See `Store.write_judgements`."""
        self._write(lambda: self._put_judgements(rows))

    async def judged_versions(self, trace_ids: Sequence[str], fingerprint: str) -> dict[str, int]:
        """See `Store.judged_versions`."""
        return {
            row.trace_id: row.request_version
            for row in self.judgements.values()
            if row.trace_id in trace_ids and row.fingerprint == fingerprint
        }

    async def judgement_of(self, content_hash: str, fingerprint: str) -> Judgement | None:
        """See `Store.judgement_of`."""
        found = (
            row
            for row in self.judgements.values()
            if (row.content_hash, row.fingerprint, row.status)
            == (content_hash, fingerprint, "judged")
        )
        return max(found, key=_rank, default=None)

    async def write_evaluation(self, record: EvalRecord, at: datetime) -> None:
        """See `Store.write_evaluation`."""
        self._write(lambda: self.evaluations.append(record))

    async def write_signals(self, rows: Sequence[Signal]) -> None:
        """See `Store.write_signals`."""
        self._write(lambda: self._put_signals(rows))

    async def signals_with(self, signal_ids: Sequence[str]) -> list[Signal]:
        """See `Store.signals_with`."""
        return [self.signals[i] for i in dict.fromkeys(signal_ids) if i in self.signals]

    async def candidates(self, signals: Sequence[Signal], since: datetime) -> list[str]:
        """See `Store.candidates`."""
        said = [msgspec.structs.replace(signal, sentiment=-1) for signal in signals]
        return [row.request.trace_id for row in complained_about(self.by_trace.values(), said)]

    async def complaints(self, rows: Sequence[StoredRequest], since: datetime) -> list[Signal]:
        """See `Store.complaints`."""
        stored = self.signals.values()
        return [s for s in stored if is_complaint(s) and complained_about(rows, [s])]

    async def write_labels(self, labels: Sequence[Label]) -> None:
        """See `Store.write_labels`."""
        given = {(label.trace_id, label.claim, label.labeller): label for label in labels}
        self._write(lambda: self.labels.update(given))

    async def write_candidate_events(self, events: Sequence[CandidateEvent]) -> None:
        """See `Store.write_candidate_events`."""
        self._write(lambda: self.candidate_events.update({e.event_id: e for e in events}))

    async def save_state(self, name: str, version: int, body: bytes) -> None:
        """See `Store.save_state`."""
        self._write(lambda: self._put_state(name, version, body))

    async def state(self, name: str) -> bytes | None:
        """See `Store.state`."""
        return self.states[name][1] if name in self.states else None

    async def write_calibration(self, calibration: Calibration) -> None:
        """See `Store.write_calibration`."""
        self._write(lambda: self.calibrations.append(calibration))

    async def rows(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what the test put into `results`."""
        return self.results.get(query, [])

    async def close(self) -> None:
        """See `Store.close`."""
        self.closed = True

    def _write(self, put: Callable[[], None]) -> None:
        failure, after_writing = self._failures.popleft() if self._failures else (None, False)
        if failure is not None and not after_writing:
            raise failure
        put()
        self.writes += 1
        if failure is not None:
            raise failure

    def _put_requests(self, rows: Sequence[StoredRequest]) -> None:
        for row in rows:
            held = self.by_trace.get(row.request.trace_id)
            if held is None or row.version >= held.version:
                self.by_trace[row.request.trace_id] = row

    def _put_judgements(self, rows: Sequence[Judgement]) -> None:
        for row in rows:
            key = (row.trace_id, row.scorer, row.fingerprint)
            held = self.judgements.get(key)
            if held is None or _rank(row) >= _rank(held):
                self.judgements[key] = row

    def _put_state(self, name: str, version: int, body: bytes) -> None:
        if name not in self.states or version >= self.states[name][0]:
            self.states[name] = (version, body)

    def _put_signals(self, rows: Sequence[Signal]) -> None:
        for row in rows:
            held = self.signals.get(row.signal_id)
            if held is None or row.occurred_at >= held.occurred_at:
                self.signals[row.signal_id] = row


def _rank(row: Judgement) -> tuple[int, datetime]:
    return row.request_version, row.judged_at or datetime.min.replace(tzinfo=UTC)
