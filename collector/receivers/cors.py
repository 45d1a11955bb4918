"""Signals from browsers: which web pages may post them (CORS, Fetch standard)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from collector.receivers.replies import Reply

_REMEMBER_SECONDS = 7200
"""How long a browser need not ask again; the most that all of them keep."""


def may_post(origin: str, allowed: Collection[str]) -> bool:
    """Tell whether a request may be taken: from no browser (no Origin), or from an allowed page.

    Refusing is up to us: a browser sends simple requests of any page, and only hides the answer.
    """
    return not origin or "*" in allowed or origin in allowed


def headers_for(origin: str) -> dict[str, str]:
    """Return the headers that let an allowed page read an answer, whatever it says."""
    return {"access-control-allow-origin": origin, "vary": "origin"}


def preflight(methods: Sequence[str], asked_headers: str) -> Reply:
    """Answer the question of an allowed page whether it may post."""
    headers = {
        "access-control-allow-methods": ", ".join(methods),
        "access-control-max-age": str(_REMEMBER_SECONDS),
    }
    if asked_headers:
        headers["access-control-allow-headers"] = asked_headers
    return Reply(204, headers, b"")
