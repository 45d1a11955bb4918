"""Quality counters from which `increase()` loses nothing.

Prometheus counts no increase for a series that is born with a value, and none for what a process
counted after its last scrape. So what is judged waits here until a scrape: a new series is shown as
0 once before anything is added to it, and what no scrape has shown by the end of the process is
handed to the next one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from prometheus_client import Counter

Labels = tuple[str, ...]
Asgi = Callable[
    [MutableMapping[str, Any], Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]],
    Awaitable[None],
]


class QualityCounters:
    """Adds to a family of counters of the same labels, all at once and only between scrapes.

    Args:
        counters: by a short name.
    """

    def __init__(self, counters: Mapping[str, Counter]) -> None:
        self._counters = counters
        self._shown: dict[Labels, bool] = {}
        self._waiting: dict[Labels, dict[str, float]] = {}

    def announce(self, labels: Labels) -> None:
        """Show the counters of these labels as 0 from the next scrape on."""
        if labels not in self._shown:
            self._shown[labels] = False
            for counter in self._counters.values():
                counter.labels(*labels)

    def add(self, labels: Labels, amounts: Mapping[str, float]) -> None:
        """Add to the counters of these labels, by their short names, at the scrape after next."""
        self.announce(labels)
        waiting = self._waiting.setdefault(labels, {})
        for name, amount in amounts.items():
            waiting[name] = waiting.get(name, 0.0) + amount

    def scrape(self) -> None:
        """Make the counters current, those that were shown before; call it before each scrape."""
        for labels in [labels for labels in self._waiting if self._shown[labels]]:
            for name, amount in self._waiting.pop(labels).items():
                self._counters[name].labels(*labels).inc(amount)
        self._shown = dict.fromkeys(self._shown, True)

    def exposed(self, app: Asgi) -> Asgi:
        """Return the exposition `app` with counters that are current."""

        async def current(
            scope: MutableMapping[str, Any],
            receive: Callable[..., Awaitable[Any]],
            send: Callable[..., Awaitable[None]],
        ) -> None:
            if scope.get("method") == "GET":
                self.scrape()
            await app(scope, receive, send)

        return current

    def hand_over(self, path: Path) -> None:
        """Write down what no scrape has shown, for the next process."""
        if self._waiting:
            left = [[labels, amounts] for labels, amounts in self._waiting.items()]
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps(left))
            fresh.replace(path)

    def take_over(self, path: Path) -> None:
        """Add what the last process left. A file that cannot be read is left out."""
        with suppress(FileNotFoundError, TypeError, ValueError):
            left = json.loads(path.read_text())
            path.unlink()  # first, so that a crash counts less and never twice
            for labels, amounts in left:
                known = {name: float(n) for name, n in amounts.items() if name in self._counters}
                self.add(tuple(labels), known)
