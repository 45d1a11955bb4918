"""The review page, the JSON API behind the command line, and the health checks."""

from __future__ import annotations

import json
import re
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

from collector.errors import DependencyError, MalformedPayload
from collector.plain import plain
from dashboards.reports import Reports
from dashboards.review.render import render
from dashboards.windows import Window, chosen, default_span

_MAX_LIMIT = 500
_SMALL = re.compile("[0-9]{1,9}")
_MAX_BODY_BYTES = 4 * 1024 * 1024
_OPTIONS = {
    "calibration": set[str](),
    "golden_answers": {"attribute"},
    **{name: {"segment", "limit"} for name in ("review", "candidates", "claims_to_label")},
}
"""Options of the reports, of those not named here only the segment."""
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
        if unfit := options.keys() - _OPTIONS.get(name, {"segment"}):
            raise HTTPException(400, f"{min(unfit)}: {name} has none")
        return JSONResponse(await reports.named(name, window, **options))

    async def labels(request: Request) -> Response:
        try:
            stored = await reports.accept_labels(await _json_array(request), datetime.now(UTC))
        except MalformedPayload as err:
            raise HTTPException(400, str(err)) from err
        return JSONResponse({"stored": stored})

    async def evaluations(request: Request) -> Response:
        now = datetime.now(UTC)
        try:
            parts = await _json_array(request)
            stored = [await reports.accept_evaluation(part, now) for part in parts]
        except MalformedPayload as err:
            raise HTTPException(400, str(err)) from err
        return JSONResponse({"stored": sum(stored)})

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
            Route("/api/labels", labels, methods=["POST"]),
            Route("/api/evaluations", evaluations, methods=["POST"]),
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


async def _json_array(request: Request) -> list[Any]:
    """Decode a body that no other web page can have sent: a form cannot claim to be JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "content-type: must be application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY_BYTES:
            raise HTTPException(413, f"at most {_MAX_BODY_BYTES} bytes; send less at once")
    try:
        items = json.loads(body)
    except ValueError as err:
        raise HTTPException(400, "the body is not JSON") from err
    return items if isinstance(items, list) else [items]


def _window(request: Request, report: str) -> Window:
    asked = {key: request.query_params.get(key) for key in _WINDOW}
    try:
        return chosen(datetime.now(UTC), default_span(report), **asked)
    except ValueError as err:
        raise HTTPException(400, str(err)) from err


def _options(request: Request) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, value in request.query_params.items():
        if key in ("segment", "attribute"):
            options[key] = value
        elif key == "limit":
            if not _SMALL.fullmatch(value) or not 1 <= int(value) <= _MAX_LIMIT:
                raise HTTPException(400, f"limit: must be between 1 and {_MAX_LIMIT}")
            options[key] = int(value)
        elif key not in _WINDOW:
            known = ", ".join((*_WINDOW, "segment", "limit"))
            raise HTTPException(400, f"{plain(key)[:60]}: unknown; there are {known}")
    return options
