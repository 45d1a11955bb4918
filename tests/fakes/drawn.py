"""Simulated judged traffic behind the query `drawn`."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from tests.fakes.store import MemoryStore


def partial_scores(rng: np.random.Generator, mean: float, n: int) -> list[float]:
    """Answers of 3 to 10 claims: a bad one supports a random part of them, .411 on average."""
    claims = rng.integers(3, 11, n)
    kept = np.floor(rng.random(n) * claims) / claims
    return [float(y) for y in np.where(rng.random(n) < (1 - mean) / 0.589, kept, 1.0)]


def hours_of(
    rng: np.random.Generator,
    mean: float,
    start: datetime,
    hours: int,
    per_hour: int,
    segment: str = "lookup",
    probability: float = 0.1,
) -> list[dict[str, Any]]:
    """Return so many rows of judged answers an hour, spread at random."""
    n = hours * per_hour
    offsets = np.sort(rng.random(n) * hours * 3600)
    return [
        {
            "trace_id": f"{segment}-{start.isoformat()}-{i}",
            "service": "bot",
            "segment": segment,
            "decided_at": start + timedelta(seconds=float(offset)),
            "probability": probability,
            "state": "judged",
            "score": score,
        }
        for i, (offset, score) in enumerate(zip(offsets, partial_scores(rng, mean, n), strict=True))
    ]


class DrawnStore(MemoryStore):
    """A store in memory whose query `drawn` answers from given rows."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__()
        self.drawn = sorted(rows, key=lambda row: (row["decided_at"], row["trace_id"]))
        self._times = [row["decided_at"] for row in self.drawn]

    async def rows(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """See `Store.rows`."""
        if query != "drawn":
            return await super().rows(query, parameters)
        start = bisect_right(self._times, parameters["since"])
        return self.drawn[start : bisect_right(self._times, parameters["until"])]
