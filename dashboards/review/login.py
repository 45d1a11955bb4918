"""Who may enter the review: people by password or through a proxy, programs by token.

Whoever is logged in is `request.user`, and signs with that name alone. A program with a token says
whose word it hands on, and so does anybody on this machine where there is no login.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path

import structlog
from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    SimpleUser,
)
from starlette.requests import HTTPConnection

from collector.config import ReviewConfig
from collector.config.review import MAX_NAME_CHARACTERS
from collector.plain import plain
from collector.ports import Store
from dashboards.review.sessions import Sessions

COOKIE = "groundwatch_session"
_OPEN = ("/login", "/healthz", "/readyz")
_WRONG_A_MINUTE = 5
_MOST_REMEMBERED = 10_000
_KEY_BYTES = 32
_HANDED_ON = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers by which proxies say that somebody else asks."""

log = structlog.get_logger()


class TooManyTries(Exception):
    """Somebody guesses; `seconds` have to pass."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many wrong passwords; wait {seconds} s")
        self.seconds = seconds


class Door(AuthenticationBackend):
    """Lets in whoever may see the review.

    Args:
        config: of the review page.
        tokens: of programs.
        session_key: signs sessions; whoever knows it can make some.
        local_hosts: Host headers that mean this machine, where there is no login; ["*"] for all.
        clock: seconds that never go back.
        store: keeps who logged out; without one this process alone knows.
    """

    def __init__(
        self,
        config: ReviewConfig,
        tokens: Sequence[str] = (),
        session_key: str = "",
        local_hosts: Sequence[str] = ("*",),
        clock: Callable[[], float] = time.monotonic,
        store: Store | None = None,
    ) -> None:
        self._config = config
        self._tokens = tokens
        self._local_hosts = local_hosts
        self._hashes = {name: kept.get_secret_value() for name, kept in config.users.items()}
        key = session_key or secrets.token_hex(_KEY_BYTES)
        self._sessions = Sessions(key, self._hashes, store, clock)
        self._guesses = _Guesses(clock)
        # Each check takes 64 MiB for a moment: one at a time, however many ask.
        self._checking = asyncio.Lock()

    @property
    def has_passwords(self) -> bool:
        """Whether somebody can log in here."""
        return bool(self._hashes)

    @property
    def has_login(self) -> bool:
        """Whether anybody has to log in, here or at a proxy."""
        return self.has_passwords or self._config.proxy_header is not None

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        """Return who asks, or None for those without a name of their own who may enter.

        Raises:
            AuthenticationError: they may not; says the cure.
        """
        if name := self._named_by_proxy(conn):
            return AuthCredentials(["proxy"]), SimpleUser(name)
        if name := await self._sessions.name_in(conn.cookies.get(COOKIE, "")):
            return AuthCredentials(["session"]), SimpleUser(name)
        path = conn.scope["path"]
        if path in _OPEN or path.startswith("/static/") or self._has_token(conn):
            return None
        if self._hashes:
            raise AuthenticationError(
                "log in at /login; a program sends its token as `Authorization: Bearer TOKEN`"
            )
        if self._config.proxy_header:
            raise AuthenticationError(
                "nobody says who you are; open this page through the proxy that logs you in"
            )
        if self._is_local(conn):
            return None
        raise AuthenticationError(
            "there is no login yet, so only this machine itself is answered; "
            "set review.users or review.proxy_header in the configuration"
        )

    def _named_by_proxy(self, conn: HTTPConnection) -> str:
        header, peer = self._config.proxy_header, _peer(conn)
        if header is None or peer is None:
            return ""
        given = conn.headers.getlist(header)
        if len(given) != 1 or not any(peer in net for net in self._config.trusted_proxies):
            return ""  # two values: one of them may be the visitor's own
        name = given[0].encode("latin-1").decode("utf-8", "replace")
        return plain(name)[:MAX_NAME_CHARACTERS].strip()

    def _has_token(self, conn: HTTPConnection) -> bool:
        scheme, _, given = conn.headers.get("authorization", "").strip().partition(" ")
        given = given.strip()
        return scheme.lower() == "bearer" and any(
            hmac.compare_digest(given.encode(), token.encode()) for token in self._tokens
        )

    def _is_local(self, conn: HTTPConnection) -> bool:
        """Whether this machine asks, and neither a page of another site nor a proxy for others."""
        peer = _peer(conn)
        asked = conn.headers.get("host", "").lower()
        host = asked.rpartition(":")[0] or asked
        named = "*" in self._local_hosts or host in self._local_hosts
        handed_on = any(header in conn.headers for header in _HANDED_ON)
        return peer is not None and peer.is_loopback and named and not handed_on

    async def session(self, name: str, password: str, address: str) -> str | None:
        """Return a session for a name with the right password, None for a wrong one.

        Raises:
            TooManyTries: somebody at this address guesses.
        """
        known = self._hashes.get(name)
        # Of names that there are not, all guesses count as one; they take as long as any other.
        kept = known or next(iter(self._hashes.values()), "")
        key = (_site(address), name if known else "")
        async with self._checking:
            if seconds := self._guesses.wait_seconds(key):
                raise TooManyTries(seconds)
            right = await asyncio.to_thread(_fits, kept, password)
            if known is None or not right:
                self._guesses.note(key)
                log.warning("login_refused", address=address)
                return None
        return await self._sessions.begin(name)

    async def leave(self, name: str) -> None:
        """End all sessions of somebody."""
        await self._sessions.end(name)


class _Guesses:
    """Wrong passwords of the last minute, by who tried."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def wait_seconds(self, key: tuple[str, str]) -> int:
        """Return after how many seconds they may try again; 0 for at once."""
        recent = self._recent(key)
        return 0 if len(recent) < _WRONG_A_MINUTE else int(recent[0] + 60 - self._clock()) + 1

    def note(self, key: tuple[str, str]) -> None:
        """Remember that they were wrong."""
        self._at[key] = [*self._recent(key), self._clock()]
        self._at.move_to_end(key)
        while len(self._at) > _MOST_REMEMBERED:
            self._at.popitem(last=False)

    def _recent(self, key: tuple[str, str]) -> list[float]:
        return [at for at in self._at.get(key, ()) if at > self._clock() - 60]


def password_hash(password: str) -> str:
    """Return the hash to put under `review.users` (Argon2id)."""
    return PasswordHasher().hash(password)


def kept_key(path: Path) -> str:
    """Return the key in a file; one is made where there is none, for its owner only.

    Raises:
        OSError: it can be neither read nor made.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text()
    key = secrets.token_hex(_KEY_BYTES)
    with os.fdopen(descriptor, "w") as file:
        file.write(key)
    return key


def _fits(kept: str, password: str) -> bool:
    try:
        return PasswordHasher().verify(kept, password)
    except (Argon2Error, InvalidHashError):
        return False


def _site(address: str) -> str:
    """Return what one visitor cannot change: of IPv6 a site has 2^64 addresses (RFC 6177)."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(IPv6Network((found, 64), strict=False))
    return address


def _peer(conn: HTTPConnection) -> IPv4Address | IPv6Address | None:
    try:
        peer = ip_address(conn.client.host if conn.client else "")
    except ValueError:
        return None
    return (peer.ipv4_mapped or peer) if isinstance(peer, IPv6Address) else peer
