"""Keeps the evidence behind the page for faithfulness: reads judged answers, saves, exports.

Every drawn request enters once, in the order of decision: the watch goes on only up to the first
request that still waits for the judge, so that slow judgements, which may be the bad ones, are not
left out. What it knows is saved as a whole with the time it has reached; a restart goes on from
there, and whatever is read again in between gives the same evidence again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from collector.config import AlertsConfig
from collector.errors import TransientDependencyError
from collector.ports import Store
from collector.telemetry import BoundedLabel, Metrics, RateLimitedLog
from collector.timing import Clock, Patience
from dashboards.reports import SCORER
from scorers.stats.watch import Judged, Settings, Watch

_SECONDS_BETWEEN = 60.0
_AT_ONCE = timedelta(hours=1)


class FaithfulnessWatch:
    """The running evidence of one judge. One per store.

    Args:
        store: where judged answers are, and the state is kept.
        fingerprint: of the judge; each judge has evidence of its own.
        config: what is watched for.
        max_wait_hours: how long a request may wait for the judge; later it is passed over.
        metrics: where evidence and threshold are shown.
        clock: the time.
    """

    def __init__(
        self,
        store: Store,
        fingerprint: str,
        config: AlertsConfig,
        max_wait_hours: float,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._store = store
        self._fingerprint = fingerprint
        self._settings = Settings(
            config.faithfulness,
            config.segments,
            config.false_page_days,
            timedelta(hours=config.hold_hours),
        )
        self._settled = timedelta(seconds=config.settle_seconds)
        self._patience = timedelta(hours=max_wait_hours) + self._settled
        self._seconds_between = min(_SECONDS_BETWEEN, config.settle_seconds)
        self._metrics = metrics
        self._clock = clock
        self._service = BoundedLabel(50)
        self._watch: Watch | None = None
        self._warn = RateLimitedLog()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        patiently = Patience(
            stop, lambda e: self._warn.warning("waiting_for_dependency", error=type(e).__name__)
        )
        with suppress(TransientDependencyError):  # only once stopping
            while not stop.is_set():
                if await self.advance(patiently):
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self._seconds_between)

    async def advance(self, patiently: Patience) -> bool:
        """Take in what was judged since the last time, an hour of decisions at most.

        Returns:
            Whether there may be more at once.
        """
        watch = self._watch or await self._resumed(patiently)
        now = self._clock.now()
        until = min(now - self._settled, watch.until + _AT_ONCE)
        asked = {
            "since": watch.until,
            "until": until,
            "scorer": SCORER,
            "fingerprint": self._fingerprint,
        }
        rows = await patiently(self._store.rows, "drawn", asked) if until > watch.until else []
        waiting = [r["decided_at"] for r in rows if not r["state"]]
        reached = settled_until(waiting, until, now - self._patience)
        if reached > watch.until:
            answers = [
                Judged(
                    self._service(row["service"]),
                    row["segment"],
                    row["decided_at"],
                    row["score"],
                    row["probability"],
                )
                for row in rows
                if row["state"] == "judged" and row["decided_at"] <= reached
            ]
            watch = watch.advanced(answers, reached, self._settings)
            version = int(reached.timestamp() * 1e6)
            await patiently(self._store.save_state, self._name, version, msgspec.json.encode(watch))
        self._watch = watch
        self._export(watch)
        return watch.until == until < now - self._settled

    @property
    def _name(self) -> str:
        return f"faithfulness evidence of {self._fingerprint}"

    async def _resumed(self, patiently: Patience) -> Watch:
        """Return the saved watch, or one that begins now: a new judge brings no evidence along."""
        saved = await patiently(self._store.state, self._name)
        now = self._clock.now()
        if saved is None:
            return Watch(started=now, until=now)
        watch = msgspec.json.decode(saved, type=Watch)
        for one in watch.series:
            self._service(one.service)
        return watch

    def _export(self, watch: Watch) -> None:
        threshold = watch.threshold(self._settings)
        for one in watch.series:
            labels = (one.service, one.segment, self._fingerprint)
            self._metrics.evidence.labels(*labels).set(watch.evidence(one, self._settings))
            self._metrics.evidence_threshold.labels(*labels).set(threshold)
            wanted = 1.0 - self._settings.baseline(one.segment)
            self._metrics.wanted.labels(*labels).set(wanted)
        self._metrics.evidence_timestamp.set(watch.until.timestamp())


def settled_until(
    waiting: Sequence[datetime], until: datetime, given_up_before: datetime
) -> datetime:
    """Return up to which decision all answers are known, or are waited for no longer.

    Args:
        waiting: when the requests were decided on whose judgement is to come, in order.
        until: the end of the window that was looked at.
        given_up_before: requests decided on earlier are passed over.
    """
    first = next((at for at in waiting if at >= given_up_before), None)
    return until if first is None else min(until, first - timedelta(microseconds=1))
