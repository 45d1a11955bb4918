"""The daily budget: money is set aside before a call is sent, and settled after it.

What is set aside is an upper estimate, so the budget holds however many workers spend at once. A
call whose outcome is not known, since the process died or the connection broke, stays charged
with its upper estimate.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import structlog

from collector.errors import DependencyError, JudgeError, Postponed
from collector.ports import Ledger
from collector.telemetry import Metrics
from collector.timing import Clock

CAUSE = "budget_exhausted"
_OTHERS_SETTLE_SECONDS = 2.0

log = structlog.get_logger()


class Charge:
    """What one call costs: the upper estimate until it is settled, once."""

    def __init__(self, usd: float) -> None:
        self.usd = usd
        self._settled = False

    def settle(self, usd: float | None) -> None:
        """Replace the upper estimate; None, not known, leaves it. Only the first word counts."""
        if not self._settled and usd is not None:
            self.usd = usd
            self._settled = True


class Budget:
    """US dollars a UTC day, shared by all that use the same ledger.

    Args:
        ledger: where money is set aside and counted; None: nothing is counted.
        limit_usd: US dollars a day; None: no limit.
        metrics: where spend, remaining and forecast are shown.
        clock: the time.
    """

    def __init__(
        self, ledger: Ledger | None, limit_usd: float | None, metrics: Metrics | None, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._limit_usd = limit_usd
        self._metrics = metrics
        self._clock = clock

    @asynccontextmanager
    async def charge(self, most_usd: float | None) -> AsyncIterator[Charge]:
        """Set `most_usd` aside for the block, then settle. None, no price known, is not counted.

        Raises:
            Postponed: today's budget is used up, or held by calls under way.
            JudgeError: not even a whole day's budget pays for this call.
        """
        charge = Charge(most_usd or 0.0)
        if self._ledger is None or most_usd is None:
            yield charge
            return
        if self._limit_usd is not None and most_usd > self._limit_usd:
            raise JudgeError(CAUSE, "one call may cost more than daily_budget_usd")
        reservation = await self._ledger.reserve(most_usd, self._limit_usd, self._clock.now())
        if reservation is None:
            raise Postponed(CAUSE, await self._wait_seconds(self._ledger, most_usd))
        try:
            yield charge
        finally:
            try:
                await self._ledger.settle(reservation, charge.usd)
            except DependencyError as err:  # then the upper estimate stands, until the day is over
                log.warning("spend_not_settled", error=type(err).__name__)

    async def reserve(self, most_usd: float) -> str | None:
        """Set money aside for longer than a call; None where too little is left today."""
        if self._ledger is None:
            return ""
        return await self._ledger.reserve(
            most_usd, self._limit_usd, self._clock.now(), lasting=True
        )

    async def settle(self, reservation: str | None, usd: float) -> None:
        """Put what was spent in place of what was set aside; None: nothing had been."""
        if self._ledger is None:
            return
        if reservation is None:
            reservation = await self._ledger.reserve(usd, None, self._clock.now(), lasting=True)
        await self._ledger.settle(reservation or "", usd)

    async def show(self) -> None:
        """Export what was spent today, what is left, and what the day will have cost."""
        if self._metrics is None:
            return
        m, limit = self._metrics, float("inf") if self._limit_usd is None else self._limit_usd
        m.spend_today_capacity.set(limit)
        if self._ledger is None:  # who does not judge knows nothing of the others' money
            m.spend_remaining.set(limit)
            return
        now = self._clock.now()
        spent = await self._ledger.spending(now)
        used = spent.today_usd + spent.reserved_usd
        m.spend_today.set(used)
        left = max(0.0, limit - used)
        m.spend_remaining.set(left)
        hours = _until_tomorrow(now).total_seconds() / 3600
        m.spend_forecast.set(used + min(left, hours * spent.last_hour_usd))

    async def _wait_seconds(self, ledger: Ledger, most_usd: float) -> float:
        """Until tomorrow, or shortly, where calls under way may yet give something back."""
        now = self._clock.now()
        spent = await ledger.spending(now)
        if self._limit_usd is not None and spent.today_usd + most_usd > self._limit_usd:
            return _until_tomorrow(now).total_seconds()
        return _OTHERS_SETTLE_SECONDS


def _until_tomorrow(now: datetime) -> timedelta:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return midnight - now
