"""Clocks and deadlines. Nothing else reads the time, so tests can move it."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Return the current wall-clock time, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back, for intervals."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current wall-clock time, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()


class Deadline:
    """One time budget shared by all steps of a shutdown: each takes what is left of it."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._clock = clock
        self._ends_at = clock.monotonic() + seconds

    def remaining_seconds(self) -> float:
        """Return the seconds left, never below zero."""
        return max(0.0, self._ends_at - self._clock.monotonic())
