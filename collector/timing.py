"""Clocks, deadlines and patience. Nothing else reads the time, so tests can move it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import ParamSpec, Protocol, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    wait_random_exponential,
)

from collector.errors import Overloaded, TransientDependencyError

_P = ParamSpec("_P")
_T = TypeVar("_T")


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

    def extend(self, seconds: float) -> None:
        """Put the end off, for time that is not to count."""
        self._ends_at += seconds


class Patience:
    """Repeats a call for as long as what it needs is down or full and nobody asks to stop.

    Waits between attempts with exponential back-off and jitter, at most 10 s. Once `stop` is set
    the error of the next failing attempt is raised.
    """

    def __init__(self, stop: asyncio.Event, on_wait: Callable[[BaseException], None]) -> None:
        self._retrying = AsyncRetrying(
            retry=retry_if_exception_type((TransientDependencyError, Overloaded)),
            wait=wait_random_exponential(multiplier=0.1, max=10),
            stop=lambda _: stop.is_set(),
            sleep=lambda seconds: _sleep_or_stop(stop, seconds),
            before_sleep=lambda state: on_wait(_exception_of(state)),
            reraise=True,
        )

    async def __call__(
        self, call: Callable[_P, Awaitable[_T]], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Return what `call` returns.

        Raises:
            PermanentDependencyError: at once, when waiting will not help.
            TransientDependencyError, Overloaded: only once stopping.
        """
        return await self._retrying(call, *args, **kwargs)


async def _sleep_or_stop(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def _exception_of(state: RetryCallState) -> BaseException:
    exception = state.outcome.exception() if state.outcome else None
    return exception or RuntimeError("no outcome")
