"""A few judgements a day for the reviewer alone: the worst requests that were not drawn.

They are chosen because they look bad, so they may be in no mean. They stay `not sampled` in every
estimate and in the accounting, and show their claims in the review. Should a signal draw one of
them later by its hash, its judgement counts like any other, with the weight of that draw.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from collector.config import Config
from collector.errors import Overloaded, TransientDependencyError
from collector.late_draws import late_task, task_entry
from collector.model import StoredRequest
from collector.ports import Journal, Store
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Patience
from collector.worst import worst_conversations

_SECONDS_BETWEEN = 600.0
_LOOKED_BACK = timedelta(days=1)
_LOOKED_AT = 200
"""Conversations, worst first, among which unjudged requests are looked for."""
_SETTLED = timedelta(minutes=15)
"""Younger requests may still be waiting for the judge, or get signals."""


def is_in_use(config: Config) -> bool:
    """Tell whether there is a cap, and texts are kept that can be judged afterwards."""
    return config.sampling.review_per_day > 0 and config.store.content != "none"


class ReviewStream:
    """Has the worst conversations judged for the review. One per store.

    Args:
        store: where requests and judgements are.
        journal: where tasks for the judge go.
        fingerprint: of the judge.
        config: the cap.
        metrics: our own metrics.
        clock: the time; days are UTC days.
    """

    def __init__(
        self,
        store: Store,
        journal: Journal,
        fingerprint: str,
        config: Config,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._store = store
        self._journal = journal
        self._fingerprint = fingerprint
        self._cap = config.sampling.review_per_day
        self._metrics = metrics
        self._clock = clock
        self._asked: dict[str, datetime] = {}
        self._warn = RateLimitedLog()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        patiently = Patience(
            stop, lambda e: self._warn.warning("waiting_for_dependency", error=type(e).__name__)
        )
        with suppress(TransientDependencyError, Overloaded):  # only once stopping
            while not stop.is_set():
                await self.choose(patiently)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _SECONDS_BETWEEN)

    async def choose(self, patiently: Patience) -> list[str]:
        """Give the judge as many of the worst requests as the cap allows by now.

        Returns:
            Their trace ids.
        """
        now = self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        asked_today = await self._asked_since(midnight, patiently)
        room = allowance(self._cap, now - midnight) - len(asked_today)
        if room <= 0:
            return []
        ranked = await patiently(
            worst_conversations,
            self._store,
            {
                "since": now - _LOOKED_BACK,
                "until": now - _SETTLED,
                "segment": "",
                "fingerprint": self._fingerprint,
            },
            _LOOKED_AT,
        )
        ids = [row["worst_trace_id"] for row in ranked if row["worst_trace_id"] not in self._asked]
        stored = await patiently(self._store.requests, ids)
        judged = await patiently(self._store.judged_versions, ids, self._fingerprint)
        chosen = unjudged(ids, stored, judged)[:room]
        tasks = [msgspec.structs.replace(late_task(row), purpose="review") for row in chosen]
        if tasks:
            await patiently(self._journal.append, [task_entry(task) for task in tasks])
        self._asked |= {row.request.trace_id: now for row in chosen}
        self._metrics.review_judgements.inc(len(chosen))
        return [row.request.trace_id for row in chosen]

    async def _asked_since(self, since: datetime, patiently: Patience) -> set[str]:
        """Return what was asked since then, by this process or, if judged by now, any earlier."""
        self._asked = {id_: at for id_, at in self._asked.items() if at >= since - _LOOKED_BACK}
        rows = await patiently(self._store.rows, "judged_for_review", {"since": since})
        return {row["trace_id"] for row in rows} | {
            id_ for id_, at in self._asked.items() if at >= since
        }


def allowance(cap: int, of_the_day: timedelta) -> int:
    """Return how much of a daily cap may be used by a time of the day: no more than its share."""
    return int(cap * of_the_day / timedelta(days=1))


def unjudged(
    trace_ids: Sequence[str], stored: Mapping[str, StoredRequest], judged: Mapping[str, int]
) -> list[StoredRequest]:
    """Return the requests, in the order given, that nobody will judge without being asked."""
    return [
        row
        for trace_id in trace_ids
        if (row := stored.get(trace_id)) is not None
        and row.ineligible is None
        and not row.decision.sampled
        and trace_id not in judged
    ]
