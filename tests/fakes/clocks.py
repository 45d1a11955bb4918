"""Clocks that stand still until a test moves them."""

from __future__ import annotations

from datetime import datetime


class StoppedClock:
    """`collector.timing.Clock` at one moment."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()
