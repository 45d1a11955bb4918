"""What happens to a record that can never be processed: it is kept apart, counted, and let go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import structlog

from collector.ports import DeadLetters, Position, Record
from collector.telemetry import Metrics
from collector.timing import Patience

Reason = Literal["malformed", "too_large", "store_refused", "internal"]


class SetAside:
    """Puts records among the dead letters, and waits where these cannot be written now."""

    def __init__(self, letters: DeadLetters, metrics: Metrics) -> None:
        self._letters = letters
        self._metrics = metrics

    async def __call__(
        self, records: Sequence[Record], reason: Reason, patiently: Patience
    ) -> None:
        """Set records aside durably, for one reason.

        Raises:
            TransientDependencyError: only once stopping; a record may then be set aside again.
        """
        for record in records:
            await patiently(asyncio.to_thread, self._letters.append, record, reason)
            self._metrics.dead_letters.labels(reason).inc()


def letter_of(trace_id: str, telemetry: bytes) -> Record:
    """Return the record of a whole trace, which came from no single position."""
    return Record(Position(0, 0), "trace", trace_id, telemetry, 0.0)


def log_fault(event: str, error: Exception, **ids: str) -> None:
    """Log a fault of ours by its type alone: its message may hold what a user wrote."""
    structlog.get_logger().error(event, error=type(error).__name__, **ids)
