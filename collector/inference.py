"""Signals that nobody sent: infers them from the turns of conversations, behind ingestion.

A conversation is looked at whenever one of its requests was stored, and once more when it has
been quiet for a while. Each look reads all of its turns (the newest `_TURNS`), infers afresh and
writes what differs from what is stored: new or changed signals, and the taking back of what no
longer holds. So the order in which turns arrive, a replay and a restart do not matter: what is
stored in the end depends on the turns alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import msgspec

from collector.config import ImplicitConfig
from collector.errors import Overloaded, TransientDependencyError
from collector.model import INFERRED, Inferred, Signal, SignalKind, StoredRequest, Turn
from collector.ports import CONVERSATIONS, Consumer, Entry, Store
from collector.set_aside import log_fault
from collector.signals import SENTIMENT
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Patience

KINDS: tuple[SignalKind, ...] = (
    "rephrase",
    "push_back",
    "regenerate",
    "abandon",
    "repeated_clicks",
)
"""The kinds that are inferred."""

_POLL_RECORDS = 500
_POLL_SECONDS = 0.2
_LOT = 100
_TURNS = 50
_SWEEP_SECONDS = 30.0
_SWEPT_AT_ONCE = timedelta(hours=1)
_LOOKED_BACK = timedelta(days=1)
"""How far back quiet conversations are looked for after a start."""

Row = Mapping[str, Any]


def conversation_entries(rows: Iterable[StoredRequest]) -> list[Entry]:
    """Return the journal entries that make stored requests' conversations be looked at."""
    ids = dict.fromkeys(row.request.conversation_id for row in rows)
    return [Entry(CONVERSATIONS, "conversation", id_, b"") for id_ in ids if id_]


class SignalInference:
    """Infers signals in the background. One per consumer.

    Args:
        consumer: of the journal's conversations.
        store: where turns are read and signals written.
        infer: what the turns of one conversation tell at a time.
        config: how long a conversation must be quiet to count as left.
        metrics: our own metrics.
        clock: the time.
    """

    def __init__(
        self,
        *,
        consumer: Consumer,
        store: Store,
        infer: Callable[[Sequence[Turn], datetime], list[Inferred]],
        config: ImplicitConfig,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._consumer = consumer
        self._store = store
        self._infer = infer
        self._quiet = timedelta(minutes=config.quiet_minutes)
        self._metrics = metrics
        self._clock = clock
        self._warn = RateLimitedLog()
        self._swept_until = clock.now() - self._quiet - _LOOKED_BACK

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. What is not looked at then waits in the journal."""
        patiently = Patience(stop, self._waiting)
        sweep_at = self._clock.monotonic()
        with suppress(TransientDependencyError, Overloaded):  # only once stopping
            while not stop.is_set():
                self._metrics.loop_timestamp.labels("infer").set(self._clock.now().timestamp())
                await self.follow(patiently)
                if self._clock.monotonic() >= sweep_at:
                    await self.sweep(patiently)
                    pause = 0.0 if self.is_behind else _SWEEP_SECONDS
                    sweep_at = self._clock.monotonic() + pause

    async def follow(self, patiently: Patience) -> None:
        """Look at the conversations that wait in the journal, some at a time, and let them go."""
        records = await patiently(self._consumer.poll, _POLL_RECORDS, _POLL_SECONDS)
        if records:
            await self._look_at([record.key for record in records], patiently)
            done = {r.position.partition: r.position.offset + 1 for r in records}
            await patiently(self._consumer.commit, done)

    @property
    def is_behind(self) -> bool:
        """Whether more than one sweep is needed to reach the conversations quiet by now."""
        return self._clock.now() - self._quiet - self._swept_until > _SWEPT_AT_ONCE

    async def sweep(self, patiently: Patience) -> None:
        """Look at conversations that have fallen quiet since the last time, an hour's at most.

        A request that is stored later than that is old enough to be looked at to the end when it
        comes out of the journal.
        """
        until = min(self._clock.now() - self._quiet, self._swept_until + _SWEPT_AT_ONCE)
        window = {"since": self._swept_until, "until": until}
        rows = await patiently(self._store.rows, "conversations_of_window", window)
        await self._look_at([row["conversation_id"] for row in rows], patiently)
        self._swept_until = until

    async def _look_at(self, conversations: Iterable[str], patiently: Patience) -> None:
        ids = list(dict.fromkeys(conversations))
        for start in range(0, len(ids), _LOT):
            asked = {"conversations": ids[start : start + _LOT], "turns": _TURNS, "kinds": KINDS}
            rows = await patiently(self._store.rows, "turns", asked)
            changed = await asyncio.to_thread(self._changes, rows, self._clock.now())
            if changed:
                await patiently(self._store.write_signals, changed)
                for signal in changed:
                    if not signal.revoked:
                        self._metrics.inferred_signals.labels(signal.kind).inc()

    def _changes(self, rows: Sequence[Row], now: datetime) -> list[Signal]:
        by_conversation: dict[str, list[Row]] = {}
        for row in rows:
            by_conversation.setdefault(row["conversation_id"], []).append(row)
        found: list[Signal] = []
        for conversation_id, members in by_conversation.items():
            try:
                inferred = self._infer([turn_of(row) for row in members], now)
                found += changes(members, inferred, now)
            except Exception as err:
                # Nothing is lost: the turns stay stored, and what was inferred of them before.
                log_fault("conversation_left_out", err, conversation_id=conversation_id)
        return found

    def _waiting(self, error: BaseException) -> None:
        self._warn.warning("waiting_for_dependency", error=type(error).__name__)


def changes(rows: Sequence[Row], inferred: Sequence[Inferred], now: datetime) -> list[Signal]:
    """Return what has to be written so that exactly `inferred` is stored for these turns.

    All signals of one kind on one turn are the same signal, dated by the turn's start: a later
    look supersedes an earlier one, whatever it found.

    Args:
        rows: of the query `turns`, with what is stored of each.
        inferred: what their conversation tells now.
        now: the time.
    """
    wanted = {(signal.trace_id, signal.kind): signal for signal in inferred}
    stored = {
        (row["trace_id"], kind): Inferred(
            trace_id=row["trace_id"], kind=kind, confidence=confidence, reason=reason
        )
        for row in rows
        for kind, confidence, reason in row["inferred"]
    }
    at = {row["trace_id"]: row["at"] for row in rows}
    new = [_signal(found, at, now) for key, found in wanted.items() if stored.get(key) != found]
    gone = [_signal(found, at, now) for key, found in stored.items() if key not in wanted]
    return new + [msgspec.structs.replace(s, revoked=True, sentiment=0) for s in gone]


def _signal(found: Inferred, at: Mapping[str, datetime], now: datetime) -> Signal:
    return Signal(
        signal_id=f"inferred-{found.kind}-{found.trace_id}",
        kind=found.kind,
        occurred_at=at[found.trace_id],
        received_at=now,
        trace_id=found.trace_id,
        sentiment=SENTIMENT[found.kind],
        source=INFERRED,
        confidence=found.confidence,
        reason=found.reason,
    )


def turn_of(row: Row) -> Turn:
    """Return a row of the query `turns` as a turn."""
    return Turn(
        trace_id=row["trace_id"],
        at=row["at"],
        question=row["question"],
        answer=row["answer"],
        latency_ms=row["latency_ms"],
        clicked=row["clicked"],
    )
