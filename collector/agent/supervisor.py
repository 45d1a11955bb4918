"""Runs the long-lived parts of an agent, stops them in time, remembers the first that failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

from collector.timing import Clock, Deadline

log = structlog.get_logger()

Run = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""Works until the event is set, then finishes what is under way."""


class Supervisor:
    """All parts share one time budget for stopping.

    Args:
        shutdown_seconds: that budget.
        clock: the time.
    """

    def __init__(self, shutdown_seconds: float, clock: Clock) -> None:
        self._shutdown_seconds = shutdown_seconds
        self._clock = clock
        self._deadline: Deadline | None = None
        self.failed = asyncio.Event()
        self._failure: BaseException | None = None

    @asynccontextmanager
    async def task(self, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Run `work` for as long as the block lasts, then cancel it."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._note)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def until_stopped(self, run: Run) -> AsyncIterator[None]:
        """Run `run(stop)`; on leaving set `stop` and let it finish within the budget."""
        stop = asyncio.Event()
        task = asyncio.create_task(run(stop))
        task.add_done_callback(self._note)
        try:
            yield
        finally:
            stop.set()
            self._deadline = self._deadline or Deadline(self._shutdown_seconds, self._clock)
            done, _ = await asyncio.wait([task], timeout=self._deadline.remaining_seconds())
            if not done:
                log.warning("stopped_early", part=getattr(run, "__qualname__", ""))
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def raise_failure(self) -> None:
        """Raise the error of the part that failed first, if one did."""
        if self._failure is not None:
            raise self._failure

    def _note(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        self._failure = self._failure or error
        self.failed.set()
        log.error("part_failed", error=type(error).__name__)
