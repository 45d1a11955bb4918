"""What a request to the review asks for, checked, and whether another web page sent it."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from collector.config.review import MAX_NAME_CHARACTERS
from collector.plain import plain
from dashboards.windows import Window, chosen, default_span

WINDOW = ("since", "until", "week")
_ELSEWHERE = (
    "origin: another web page may not change anything here; "
    "if this is the page itself, the proxy in front of it has to hand on the Host header"
)
_SIGNATURES = ("labeller", "actor")
"""Fields in which people say who they are."""
_MAX_LIMIT = 500
_SMALL = re.compile("[0-9]{1,9}")
BODY_SECONDS = 30.0
_MAX_BODY_BYTES = 4 * 1024 * 1024


def window_of(request: Request, report: str) -> Window:
    """Return the window that is asked for.

    Raises:
        HTTPException: 400, starting with the name of the parameter at fault.
    """
    asked = {key: request.query_params.get(key) or None for key in WINDOW}
    try:
        return chosen(datetime.now(UTC), default_span(report), **asked)
    except ValueError as err:
        raise HTTPException(400, str(err)) from err


def options_of(request: Request, allowed: set[str], name: str) -> dict[str, Any]:
    """Return the parameters beside the window; `limit` as a number.

    Args:
        request: with its query.
        allowed: parameters that are known, beside those of the window.
        name: of what is asked for, for the error.

    Raises:
        HTTPException: 400, naming the parameter at fault.
    """
    options: dict[str, Any] = {}
    for key, value in request.query_params.items():
        if key in WINDOW:
            continue
        if key not in allowed:
            raise HTTPException(400, f"{plain(key)[:60]}: {name} has none; {_known(allowed)}")
        if key == "limit":
            if not _SMALL.fullmatch(value) or not 1 <= int(value) <= _MAX_LIMIT:
                raise HTTPException(400, f"limit: must be between 1 and {_MAX_LIMIT}")
            options[key] = int(value)
        else:
            options[key] = value
    return options


def _known(allowed: set[str]) -> str:
    return f"there are {', '.join((*WINDOW, *sorted(allowed)))}"


def query_of(request: Request, names: tuple[str, ...]) -> str:
    """Return those parameters that are given, as a query: the address of a list."""
    given = [(name, request.query_params.get(name, "")) for name in (*WINDOW, *names)]
    return urlencode([(name, value) for name, value in given if value])


async def json_body(request: Request) -> Any:
    """Decode a body that no other web page can have sent: a form cannot claim to be JSON.

    Raises:
        HTTPException: 415 or 413 or 400, and 403 for what another web page sent, or what somebody
            who is logged in signs with another name.
    """
    refuse_other_pages(request)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "content-type: must be application/json")
    body = await body_of(request, _MAX_BODY_BYTES)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as err:
        raise HTTPException(400, "the body is not JSON, or nested too deeply") from err
    _refuse_other_names(request, found)
    return found


async def body_of(request: Request, most: int) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: 413, it has more bytes than `most`; 408, it does not come.
    """
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise HTTPException(413, f"at most {most} bytes; send less at once")
    except TimeoutError as err:
        raise HTTPException(408, f"the body took more than {BODY_SECONDS:g} s") from err
    return body


def _refuse_other_names(request: Request, found: Any) -> None:
    if not request.user.is_authenticated:
        return
    own = request.user.display_name
    for item in found if isinstance(found, list) else [found]:
        for field in _SIGNATURES:
            if isinstance(item, dict) and item.get(field, own) != own:
                raise HTTPException(403, f"{field}: you are logged in as {own}; sign with that")


def reviewer_of(request: Request) -> str:
    """Return who reviews: by login, else as they say; "" if they do not."""
    if request.user.is_authenticated:
        return str(request.user.display_name)
    return plain(unquote(request.cookies.get("reviewer", "")))[:MAX_NAME_CHARACTERS].strip()


async def json_array(request: Request) -> list[Any]:
    """Decode the same; a single item is a list of one."""
    items = await json_body(request)
    return items if isinstance(items, list) else [items]


def refuse_other_pages(request: Request) -> None:
    """Refuse what a browser sent for a page of another site.

    By `Sec-Fetch-Site` (Fetch Metadata, W3C) where the browser sends it, else by comparing
    `Origin` with `Host`. Programs send neither.

    Raises:
        HTTPException: 403.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        own = site in ("same-origin", "none")
    else:
        own = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not own:
        raise HTTPException(403, _ELSEWHERE)
