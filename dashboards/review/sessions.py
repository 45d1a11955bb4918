"""Sessions of people who logged in: signed, and over with the log-out, the password and the time.

A session is a signed cookie, so that any of several agents knows it. Logging out ends all sessions
of that name, also those in stolen cookies: until when they were begun is kept in the store.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import structlog
from itsdangerous import BadSignature, URLSafeTimedSerializer

from collector.errors import DependencyError
from collector.ports import Store

SESSION_SECONDS = 12 * 3600
LOOK_AGAIN_SECONDS = 5.0
"""After so long, one agent knows of a log-out at another."""

log = structlog.get_logger()


class _Ended(NamedTuple):
    until: int
    looked_at: float


class Sessions:
    """Begins sessions, knows them again, and ends them.

    Args:
        key: signs them; whoever knows it can make some.
        hashes: of the passwords, by name.
        store: keeps when somebody logged out; without one this process alone knows.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        key: str,
        hashes: Mapping[str, str],
        store: Store | None,
        clock: Callable[[], float],
    ) -> None:
        self._signer = URLSafeTimedSerializer(key, salt="groundwatch review session")
        self._hashes = hashes
        self._store = store
        self._clock = clock
        self._ended: dict[str, _Ended] = {}

    async def begin(self, name: str) -> str:
        """Return a session for a name that there is."""
        # After what is over, also where a clock was put back.
        begun = max(time.time_ns() // 1000, await self._ended_until(name) + 1)
        return self._signer.dumps([name, _mark(self._hashes[name]), begun])

    async def name_in(self, session: str) -> str:
        """Return the name in a session, "" where it is not valid, or no longer."""
        try:
            name, mark, begun = self._signer.loads(session, SESSION_SECONDS)
        except (BadSignature, TypeError, ValueError):
            return ""
        known = self._hashes.get(name)
        if known is None or not hmac.compare_digest(mark, _mark(known)):
            return ""
        return str(name) if begun > await self._ended_until(name) else ""

    async def end(self, name: str) -> None:
        """End all sessions of a name; where the store is away, in this process alone."""
        until = max(time.time_ns() // 1000, await self._ended_until(name))
        self._ended[name] = _Ended(until, self._clock())
        if self._store is None:
            return
        try:
            await self._store.save_state(_state(name), until, str(until).encode())
        except DependencyError as err:
            log.warning("logout_not_kept", error=str(err))

    async def _ended_until(self, name: str) -> int:
        known = self._ended.get(name, _Ended(0, float("-inf")))
        if self._store is None or self._clock() - known.looked_at < LOOK_AGAIN_SECONDS:
            return known.until
        kept = b""
        with suppress(DependencyError):  # without the store no page shows anything anyway
            kept = await self._store.state(_state(name)) or b""
        # Somebody may have logged out here meanwhile.
        until = max(int(kept or 0), self._ended[name].until if name in self._ended else 0)
        self._ended[name] = _Ended(until, self._clock())
        return until


def _state(name: str) -> str:
    return f"review sessions ended of {name}"


def _mark(kept: str) -> str:
    """Return what changes with the password, and tells nothing of it."""
    return hashlib.sha256(kept.encode()).hexdigest()[:16]
