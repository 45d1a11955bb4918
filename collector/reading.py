"""Telemetry out of the journal: spans and log records to the assembler, feedback to the signals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from collector import otlp
from collector.acks import Acks
from collector.assembler import Assembler
from collector.config import ReceiveConfig
from collector.errors import MalformedPayload
from collector.model import Signal, Telemetry
from collector.ports import Position, Record
from collector.set_aside import Reason, log_fault
from collector.signals import Client, is_evaluation, may_hold_signals, signals_in
from collector.telemetry import Metrics
from collector.timing import Clock


class Told(NamedTuple):
    """Feedback that came as telemetry, and the position that waits until it is passed on."""

    position: Position
    signals: list[Signal]


class Taken(NamedTuple):
    """What has to be done about records beside assembling their traces.

    Their positions are held until it is done: traces that signals may be about are looked at
    again, feedback is passed on, and what cannot be read is set aside.
    """

    complaints: list[tuple[str, Position]]
    told: list[Told]
    unreadable: list[tuple[Record, Reason]]


class Reader:
    """Hands telemetry to the assembler and holds its positions until the traces are stored."""

    def __init__(
        self,
        assembler: Assembler,
        acks: Acks,
        config: ReceiveConfig,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._assembler = assembler
        self._acks = acks
        self._config = config
        self._metrics = metrics
        self._clock = clock

    def take_in(self, records: Sequence[Record]) -> Taken:
        """Read records in order. Whatever is wrong with one, the others are read."""
        taken = Taken([], [], [])
        for record in records:
            self._acks.read(record.position)
            if record.kind == "complaint":
                taken.complaints.append((record.key, record.position))
                continue
            try:
                telemetry = _decode(record)
                feedback = self._feedback(telemetry, record)
            except MalformedPayload:
                taken.unreadable.append((record, "malformed"))
                continue
            except Exception as err:
                log_fault("record_set_aside", err)
                taken.unreadable.append((record, "internal"))
                continue
            if feedback:
                taken.told.append(Told(record.position, feedback))
                self._acks.hold(record.position)
            self._assemble(telemetry, record)
            self._acks.release([record.position])
        return taken

    def _assemble(self, telemetry: Telemetry, record: Record) -> None:
        # A score is no part of the trace it is about, and must not open it again.
        logs = [log for log in telemetry.logs if not is_evaluation(log)]
        items = len(telemetry.spans) + len(telemetry.logs)
        holders = self._assembler.add(
            telemetry.spans,
            logs,
            record.position,
            len(record.body) // max(items, 1),
            self._clock.monotonic(),
        )
        for _ in range(holders):
            self._acks.hold(record.position)

    def _feedback(self, telemetry: Telemetry, record: Record) -> list[Signal]:
        """Return the users' signals that travel as telemetry; a look at the bytes spares most."""
        if not may_hold_signals(record.body):
            return []
        received_at = datetime.fromtimestamp(record.appended_at, UTC)
        client = Client(received_at, self._config.feedback)
        found = signals_in(telemetry.spans, telemetry.logs, client)
        for signal in found.signals:
            self._metrics.signals_received.labels(signal.kind).inc()
        for reason in found.ignored:
            self._metrics.scores_ignored.labels(reason).inc()
        return found.signals


def _decode(record: Record) -> Telemetry:
    decode = otlp.decode_traces if record.kind == "otlp_traces" else otlp.decode_logs
    return decode(record.body, "application/x-protobuf")
