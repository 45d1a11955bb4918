"""From the journal to the store: the signals of users."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from collector.config import Config
from collector.errors import GroundwatchError, Overloaded, TransientDependencyError
from collector.late_draws import REACH, complaint_entry, is_in_use
from collector.model import Signal
from collector.ports import Consumer, DeadLetters, Journal, Record, Store
from collector.set_aside import SetAside, log_fault
from collector.signals import CONVERSATION_REACH, is_complaint, keys_of, may_be_changed, together
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Patience

_POLL_RECORDS = 500
_POLL_SECONDS = 0.2


class SignalWriter:
    """Consumes user signals and writes them to the store.

    A signal whose trace is not there yet is stored like any other: readers join the two. What
    says no about a stored request is told to the processor, which may have it judged.
    """

    def __init__(
        self,
        *,
        consumer: Consumer,
        journal: Journal,
        store: Store,
        dead_letters: DeadLetters,
        metrics: Metrics,
        config: Config,
        clock: Clock,
    ) -> None:
        self._consumer = consumer
        self._journal = journal
        self._store = store
        self._set_aside = SetAside(dead_letters, metrics)
        self._tells = is_in_use(config)
        self._clock = clock
        self._warn = RateLimitedLog()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        patiently = Patience(
            stop, lambda e: self._warn.warning("waiting_for_dependency", error=type(e).__name__)
        )
        with suppress(TransientDependencyError, Overloaded):  # only once stopping
            while not stop.is_set():
                records = await patiently(self._consumer.poll, _POLL_RECORDS, _POLL_SECONDS)
                if records:
                    await self._take(records, patiently)
                    offsets = {r.position.partition: r.position.offset + 1 for r in records}
                    await patiently(self._consumer.commit, offsets)

    async def _take(self, records: Sequence[Record], patiently: Patience) -> None:
        """Store the signals of records; what cannot be read or handled is set aside, alone."""
        signals: list[Signal] = []
        readable: list[Record] = []
        for record in records:
            try:
                signals += msgspec.json.decode(record.body, type=list[Signal])
                readable.append(record)
            except (msgspec.DecodeError, UnicodeDecodeError):
                await self._set_aside([record], "malformed", patiently)
        try:
            signals = await self._complete(signals, patiently)
            await patiently(self._store.write_signals, signals)
            await self._tell(signals, patiently)
        except GroundwatchError:
            raise
        except Exception as err:
            if len(readable) > 1:
                for record in readable:
                    await self._take([record], patiently)
                return
            log_fault("signals_set_aside", err)
            await self._set_aside(readable, "internal", patiently)

    async def _complete(self, signals: list[Signal], patiently: Patience) -> list[Signal]:
        """Join messages that change fields of a signal with the rest of it, in any order."""
        ids = {signal.signal_id for signal in signals if may_be_changed(signal)}
        if not ids:
            return signals
        messages: dict[str, list[Signal]] = {signal_id: [] for signal_id in ids}
        for signal in [*await patiently(self._store.signals_with, sorted(ids)), *signals]:
            if signal.signal_id in ids:
                messages[signal.signal_id].append(signal)
        whole = [together(found) for found in messages.values()]
        return [signal for signal in signals if signal.signal_id not in ids] + whole

    async def _tell(self, signals: Sequence[Signal], patiently: Patience) -> None:
        """Tell the processor of stored requests that users complain about."""
        complaints = [signal for signal in signals if self._tells and is_complaint(signal)]
        direct = [signal for signal in complaints if keys_of(signal)]
        whole = [signal for signal in complaints if not keys_of(signal)]
        found: set[str] = set()
        if direct:
            since = self._clock.now() - REACH
            found |= set(await patiently(self._store.candidates, direct, since))
        if whole:
            since = min(signal.occurred_at for signal in whole) - CONVERSATION_REACH
            found |= set(await patiently(self._store.candidates, whole, since))
        if found:
            entries = [complaint_entry(trace_id) for trace_id in sorted(found)]
            await patiently(self._journal.append, entries)
