"""How much an endpoint is asked: calls at once, calls and tokens a minute, and whether at all.

Written by hand: a circuit breaker that lets one call through to try (aiobreaker is unmaintained,
pybreaker knows no asyncio, purgatory lets all through), a pace that takes tokens back (aiolimiter
cannot, and allows a burst of a whole minute), and a limit that adapts itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from collector.timing import Clock

_FIRST_CALLS = 2
_PACE_MARGIN = 0.93
"""Share of a stated limit that is used: calls arrive less evenly than they are sent."""
_CATCH_UP_SECONDS = 0.02
_LOOK_SECONDS = 1.0
_FAILURES_TO_OPEN = 5
_FIRST_REST_SECONDS = 1.0
_LONGEST_REST_SECONDS = 60.0
_LONGEST_TOLD_SECONDS = 3600.0
_PROBE_SECONDS = 0.5


class AdaptiveLimit:
    """Bounds the calls under way: a little more for every success, half after a rejection.

    Additive increase, multiplicative decrease (Chiu and Jain 1989), after a start that doubles
    until the first rejection. Rejections of calls that were sent before the last decrease say
    nothing new.

    Args:
        most: the bound is never above this, nor below 1.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bound = float(min(_FIRST_CALLS, most))
        self._starting = True
        self._running = 0
        self._decreases = 0
        self._changed = asyncio.Condition()

    @property
    def bound(self) -> int:
        """How many calls may be under way now."""
        return int(self._bound)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a place, hold it for the block; give the round that it belongs to."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._running < self.bound)
            self._running += 1
        try:
            yield self._decreases
        finally:
            self._running -= 1
            async with self._changed:
                self._changed.notify_all()

    def succeeded(self) -> None:
        """Allow more: one for each call at the start, one for each round of calls later."""
        step = 1.0 if self._starting else 1.0 / self._bound
        self._bound = min(float(self._most), self._bound + step)

    def rejected(self, began_in: int) -> None:
        """Allow half as many, once for all calls of the same round."""
        if began_in == self._decreases:
            self._decreases += 1
            self._starting = False
            self._bound = max(1.0, self._bound / 2)


class Pace:
    """Spaces what is sent evenly, so that no window, wherever it begins, holds more than allowed.

    Args:
        per_minute: what may be sent in a minute, in calls or tokens; None: no limit.
        clock: the time.
        share: part of it that is ours, above 0, now; others have the rest.
    """

    def __init__(
        self, per_minute: int | None, clock: Clock, share: Callable[[], float] = lambda: 1.0
    ) -> None:
        self._per_second = per_minute * _PACE_MARGIN / 60 if per_minute else 0.0
        self._clock = clock
        self._share = share
        # What was sent and is not yet made up for by time, in calls or tokens, at that moment.
        self._ahead = 0.0
        self._at = clock.monotonic()
        self._turn = asyncio.Lock()

    async def take(self, amount: float = 1.0) -> None:
        """Wait for the next turn. One waits at a time, so that a late waking bunches nothing up."""
        if not self._per_second:
            return
        async with self._turn:
            while (seconds := self._wait_seconds()) > 0:  # noqa: ASYNC110 - time has no event
                # Meanwhile the share may change, and something be given back.
                await asyncio.sleep(min(seconds, _LOOK_SECONDS))
            self._ahead += amount

    def give_back(self, amount: float) -> None:
        """Return what was taken and not used; a negative amount was used on top."""
        self._ahead -= amount

    def _wait_seconds(self) -> float:
        """Count the time that has passed; return how long the next turn is off at our share."""
        now, rate = self._clock.monotonic(), self._per_second * self._share()
        passed = rate * (now - self._at)
        self._ahead, self._at = max(self._ahead - passed, -rate * _CATCH_UP_SECONDS), now
        return self._ahead / rate


class Breaker:
    """Stops asking an endpoint that is down, and finds out by itself when it is back.

    After a few failures in a row, of whatever calls, it opens. Each rest ends with one call that
    tries; if that fails too, the next rest is twice as long. An endpoint that names a time to come
    back (Retry-After) is left alone until then, for an hour at most.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._rest_seconds = _FIRST_REST_SECONDS
        self._asleep_until = 0.0
        self._told_until = 0.0
        self._probing = False
        self.cause = ""

    @property
    def is_open(self) -> bool:
        """Whether the endpoint counts as down."""
        return self._failures >= _FAILURES_TO_OPEN

    def wait_seconds(self) -> float:
        """Return how long to leave the endpoint alone; 0 where a call may be made now."""
        now = self._clock.monotonic()
        until = max(self._told_until, self._asleep_until if self.is_open else 0.0)
        if now < until:
            return until - now
        return _PROBE_SECONDS if self.is_open and self._probing else 0.0

    def enter(self) -> bool:
        """Say whether a call may be made now, and count on its outcome where it does."""
        if self.wait_seconds() > 0:
            return False
        self._probing = self.is_open
        return True

    def succeeded(self) -> None:
        """The endpoint answered."""
        self._failures = 0
        self._rest_seconds = _FIRST_REST_SECONDS
        self._probing = False

    def failed(self, cause: str, retry_after_seconds: float = 0.0) -> None:
        """The endpoint did not answer, or with an error of its own."""
        self.cause = cause
        now = self._clock.monotonic()
        told = min(retry_after_seconds, _LONGEST_TOLD_SECONDS)
        self._told_until = max(self._told_until, now + told)
        was_open, tried = self.is_open, self._probing
        self._failures += 1
        if self.is_open and (tried or not was_open):
            self._asleep_until = now + self._rest_seconds * random.uniform(0.8, 1.2)  # noqa: S311
            self._rest_seconds = min(2 * self._rest_seconds, _LONGEST_REST_SECONDS)
            self._probing = False

    def left(self) -> None:
        """A call was given up before it had an outcome."""
        self._probing = False
