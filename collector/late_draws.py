"""Requests whose users complain are judged more often, whenever the complaint comes.

A signal that says no raises the threshold of its request under the same hash: the request is drawn
where its hash lies below the higher of the two rates, and weighs one over that rate from then on,
also where it was drawn and judged before. Any other weighting is biased: the rate of a request
must not depend on which of the two found it.

Signals and requests look for each other, each after it is stored itself, so that none is missed
whichever comes first. Only the processor changes decisions: what a signal finds is told to it
through the journal, so a request has one writer and no change is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from collector.config import Config
from collector.model import Decision, JudgeTask, RagRequest, StoredRequest
from collector.pacer import Pacer
from collector.ports import JUDGE, TELEMETRY, Entry, Journal, Known, Store
from collector.sampling import raised
from collector.signals import complained_about, is_complaint
from collector.telemetry import Metrics
from collector.timing import Clock, Patience

REACH = timedelta(days=7)
"""How long after a request a complaint still has it judged."""


def is_in_use(config: Config) -> bool:
    """Tell whether complaints can raise anything: not where texts are gone once stored."""
    sampling = config.sampling
    lowest = sampling.rate if sampling.budget_per_day is None else sampling.floor
    return sampling.signal_rate > lowest and config.store.content != "none"


def task_entry(task: JudgeTask) -> Entry:
    """Return the journal entry of a judge task."""
    return Entry(JUDGE, "judge_task", task.request.trace_id, msgspec.msgpack.encode(task))


def complaint_entry(trace_id: str) -> Entry:
    """Return the entry that tells the processor: a stored signal may be about this trace."""
    return Entry(TELEMETRY, "complaint", trace_id, b"")


class LateDraws:
    """Raises the decisions of requests about which users complained. One per processor."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        pacer: Pacer,
        config: Config,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._store = store
        self._journal = journal
        self._pacer = pacer
        self._in_use = is_in_use(config)
        self._metrics = metrics
        self._clock = clock

    async def of_traces(self, trace_ids: Sequence[str], patiently: Patience) -> None:
        """Look again at stored traces that a signal was found to be about."""
        if self._in_use and trace_ids:
            stored = await patiently(self._store.requests, list(dict.fromkeys(trace_ids)))
            await self.of_rows(list(stored.values()), patiently)

    async def of_rows(self, rows: Sequence[StoredRequest], patiently: Patience) -> None:
        """Raise what is to be raised of requests that are stored, and have it judged.

        Repeating it changes nothing, so a crash within it is made good by the replay.
        """
        if not self._in_use or not rows:
            return
        since = self._clock.now() - REACH
        found = await patiently(self._store.complaints, rows, since)
        complaints = [signal for signal in found if is_complaint(signal)]
        ids = [row.request.trace_id for row in complained_about(rows, complaints)]
        if not ids:
            return
        stored = await patiently(self._store.requests, ids)
        known = await patiently(self._store.known, ids)
        latest = [_with_telemetry(row, known) for row in stored.values()]
        rate = self._pacer.complaint_rate()
        pairs = [(row, raised_row(row, rate)) for row in latest]
        if changed := [new for old, new in pairs if new is not old]:
            await patiently(self._store.write_requests, changed)
            drawn = sum(new.decision.sampled > old.decision.sampled for old, new in pairs)
            self._metrics.late_draws.inc(drawn)
            self._pacer.spent(drawn)
        if tasks := [late_task(new) for _, new in pairs if is_late_draw(new)]:
            await patiently(self._journal.append, [task_entry(task) for task in tasks])


def raised_row(row: StoredRequest, rate: float) -> StoredRequest:
    """Return the row with its decision raised to `rate`; the same row where nothing changes.

    Its version supersedes that of the same telemetry, and gives way to that of any more.
    """
    decision = raised(row.decision, rate)
    if decision is row.decision:
        return row
    return msgspec.structs.replace(row, decision=decision, version=row.version | 1)


def version_with(telemetry_version: int, decision: Decision) -> int:
    """Return the version of a row of this telemetry: odd once its decision was raised."""
    return telemetry_version | (decision.first_probability is not None)


def is_late_draw(row: StoredRequest) -> bool:
    """Tell whether a request is judged only because a signal raised its decision."""
    drawn = row.decision.sampled and not row.decision.at_first.sampled
    return drawn and row.ineligible is None


def late_task(row: StoredRequest) -> JudgeTask:
    """Return the task to judge a late draw; Prometheus has counted the request as not drawn."""
    return JudgeTask(
        request=row.request,
        version=row.version & ~1,
        probability=row.decision.probability,
        counted=False,
    )


def first_task(
    request: RagRequest, row: StoredRequest, telemetry_version: int, *, newly_eligible: bool
) -> JudgeTask | None:
    """Return the task to judge a request that was just stored, None where it is not drawn."""
    if not row.decision.sampled or row.ineligible is not None:
        return None
    first = row.decision.at_first
    counted = newly_eligible and first.sampled
    probability = first.probability if counted else row.decision.probability
    return JudgeTask(
        request=request,
        version=telemetry_version,
        probability=probability,
        counted=counted,
        prediction=row.decision.prediction,
    )


def scorer_tasks(
    request: RagRequest, row: StoredRequest, telemetry_version: int, known: Known | None
) -> list[JudgeTask]:
    """Return the tasks of the other scorers that drew a request, counted where they are new."""
    decision = row.decision
    before = known.decision.scorer_probability if known is not None else {}
    return [
        JudgeTask(
            request=request,
            version=telemetry_version,
            probability=decision.scorer_probability[scorer],
            counted=scorer not in before,
            scorer=scorer,
        )
        for scorer in decision.scorers_drawn
    ]


def _with_telemetry(row: StoredRequest, known: dict[str, Known]) -> StoredRequest:
    """Return the row with its raw spans, which every version carries for late ones to join."""
    found = known.get(row.request.trace_id)
    return row if found is None else msgspec.structs.replace(row, telemetry=found.telemetry)
