"""The review page, the JSON API behind the command line, and the health checks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from collector.errors import DependencyError
from dashboards.reports import Reports
from dashboards.review.render import render
from dashboards.windows import Window, chosen, default_span

_MAX_LIMIT = 500
_WINDOW = ("since", "until", "week")
_CSP = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def build_review(
    reports: Reports,
    stalled: Callable[[], list[str]],
    allowed_hosts: list[str],
    agent_id: str = "",
) -> Starlette:
    """Build the web app.

    Args:
        reports: where its data come from.
        stalled: names the loops of the agent that no longer turn.
        allowed_hosts: Host headers that are answered, against DNS rebinding.
        agent_id: by which commands know that this is the agent they look for.
    """

    async def page(request: Request) -> Response:
        window, options = _window(request, "review"), _options(request)
        segment = options.get("segment", "")
        report = await reports.review(window, **options)
        report["estimates"] = await reports.estimates(window, segment)
        return HTMLResponse(
            render(report, "html"),
            headers={"content-security-policy": _CSP, "referrer-policy": "no-referrer"},
        )

    async def report(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in reports.names:
            raise HTTPException(404, f"no such report; there are {', '.join(reports.names)}")
        window, options = _window(request, name), _options(request)
        if "limit" in options and name not in ("review", "candidates"):
            raise HTTPException(400, f"limit: {name} has none")
        return JSONResponse(await reports.named(name, window, **options))

    async def healthz(_: Request) -> Response:
        loops = stalled()
        told = {"ok": not loops, "stalled": loops, "agent": agent_id}
        return JSONResponse(told, 503 if loops else 200)

    async def readyz(_: Request) -> Response:
        await reports.ping()
        return JSONResponse({"ok": True})

    return Starlette(
        routes=[
            Route("/", page),
            Route("/api/{name}", report),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=allowed_hosts)],
        exception_handlers={HTTPException: _refused, DependencyError: _down},
    )


async def _refused(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 400
    return JSONResponse({"error": getattr(error, "detail", "")}, status)


async def _down(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503, headers={"retry-after": "5"})


def _window(request: Request, report: str) -> Window:
    asked = {key: request.query_params.get(key) for key in _WINDOW}
    try:
        return chosen(datetime.now(UTC), default_span(report), **asked)
    except ValueError as err:
        raise HTTPException(400, str(err)) from err


def _options(request: Request) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, value in request.query_params.items():
        if key == "segment":
            options[key] = value
        elif key == "limit":
            if not value.isdecimal() or not 1 <= int(value) <= _MAX_LIMIT:
                raise HTTPException(400, f"limit: must be between 1 and {_MAX_LIMIT}")
            options[key] = int(value)
        elif key not in _WINDOW:
            known = ", ".join((*_WINDOW, "segment", "limit"))
            raise HTTPException(400, f"{key}: unknown; there are {known}")
    return options
