"""Remembers when each version of an assistant was first seen, over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
import structlog

from collector.errors import DependencyError
from collector.ports import Store

_SECONDS_BETWEEN = 1.0
_LATEST = 2**63

log = structlog.get_logger()


class Release(NamedTuple):
    """A version (`service.version`) of an assistant, and when it was first seen, UTC."""

    service: str
    version: str
    first_seen: datetime


async def keep_releases(store: Store, fresh: Callable[[], Sequence[Release]]) -> None:
    """Write releases down, for ever.

    Args:
        store: where they are kept.
        fresh: returns those that were seen since it was last asked.
    """
    waiting: list[Release] = []
    while True:
        waiting += fresh()
        try:
            while waiting:
                await write_release(store, waiting[0])
                del waiting[0]
        except DependencyError as err:
            log.warning("release_waits", error=type(err).__name__)
        await asyncio.sleep(_SECONDS_BETWEEN)


async def write_release(store: Store, release: Release) -> None:
    """Keep a release; of several processes that see it, the first one counts.

    Raises:
        DependencyError: the store does not take it.
    """
    seen = int(release.first_seen.timestamp() * 1e6)
    name = msgspec.json.encode([release.service, release.version]).decode()
    body = {"service": release.service, "version": release.version, "first_seen": seen}
    await store.save_state(f"release {name}", _LATEST - seen, msgspec.json.encode(body))
