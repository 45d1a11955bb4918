"""The web app of the review: its pages, the JSON API behind the command line, health checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from collector.config import ReviewConfig
from collector.errors import Conflict, DependencyError, MalformedPayload, UsageError
from dashboards.health import health_routes
from dashboards.reports import Reports
from dashboards.review.api import api_routes
from dashboards.review.desk import Desk
from dashboards.review.entrance import entrance_routes, turned_away
from dashboards.review.headers import Headers
from dashboards.review.login import Door
from dashboards.review.pages import error_page, page_routes

_DEFAULTS = ReviewConfig()


def build_review(
    reports: Reports,
    stalled: Callable[[], list[str]],
    allowed_hosts: list[str],
    agent_id: str = "",
    config: ReviewConfig = _DEFAULTS,
    door: Door | None = None,
) -> Starlette:
    """Build the web app.

    Args:
        reports: where its data come from.
        stalled: names the loops of the agent that no longer turn.
        allowed_hosts: Host headers that are answered, against DNS rebinding.
        agent_id: by which commands know that this is the agent they look for.
        config: of the review page.
        door: who may enter; by default one as configured, without any token.

    Returns:
        The app; its `state.desk` is the `Desk` behind it.
    """
    desk = Desk(reports, config)
    entry = door or Door(config)
    public = urlsplit(config.public_url or "")
    hosts = [*allowed_hosts, *([public.hostname] if public.hostname else [])]

    app = Starlette(
        routes=[
            *entrance_routes(entry, secure=public.scheme == "https"),
            *page_routes(desk),
            *api_routes(desk),
            Mount("/static", StaticFiles(packages=[("dashboards.review", "static")])),
            *health_routes(stalled, reports.ping, agent_id),
        ],
        middleware=[
            Middleware(Headers),
            Middleware(TrustedHostMiddleware, allowed_hosts=hosts),
            Middleware(
                AuthenticationMiddleware, backend=entry, on_error=partial(turned_away, entry)
            ),
        ],
        exception_handlers={
            HTTPException: _refused,
            MalformedPayload: _unusable,
            UsageError: _unusable,
            Conflict: _conflict,
            DependencyError: _down,
        },
    )
    app.state.desk = desk
    return app


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 400
    return _told(request, status, getattr(error, "detail", ""))


async def _unusable(request: Request, error: Exception) -> Response:
    return _told(request, 400, str(error))


async def _conflict(request: Request, error: Exception) -> Response:
    return _told(request, 409, str(error))


async def _down(request: Request, error: Exception) -> Response:
    answer = _told(request, 503, str(error))
    answer.headers["retry-after"] = "5"
    return answer


def _told(request: Request, status: int, message: str) -> Response:
    """Answer an error as a page where a person looks, as JSON everywhere else."""
    if "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api"):
        return error_page(request, status, message)
    return JSONResponse({"error": message}, status)
