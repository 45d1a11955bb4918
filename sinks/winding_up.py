"""Ends threads that call a server, which may be silent for longer than anybody waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

CLOSE_SECONDS = 3.0
"""How long calls to a server are waited for at the end."""
_LOOK_SECONDS = 0.02


async def wound_up(pools: Sequence[ThreadPoolExecutor], seconds: float | None) -> bool:
    """Take no more calls, and wait for those under way.

    Args:
        pools: their threads.
        seconds: how long to wait; None: as long as it takes.

    Returns:
        Whether all have ended. Else the threads are left behind: see `left_behind`.
    """
    waiter = threading.Thread(target=_shut_down, args=(pools,), daemon=True)
    waiter.start()
    loop = asyncio.get_running_loop()
    ends_at = None if seconds is None else loop.time() + seconds
    while waiter.is_alive() and (ends_at is None or loop.time() < ends_at):  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_SECONDS)
    if waiter.is_alive():
        _left.append(waiter)
        return False
    return True


def left_behind() -> bool:
    """Whether threads wait for a server that nobody waits for any more; an exit would, too."""
    return any(waiter.is_alive() for waiter in _left)


_left: list[threading.Thread] = []


def _shut_down(pools: Sequence[ThreadPoolExecutor]) -> None:
    for pool in pools:
        pool.shutdown()
