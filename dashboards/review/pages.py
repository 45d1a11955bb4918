"""The pages of the weekly review: the week, a conversation, a sample, the golden editor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from collector.labels import ANSWER_LABELS, CAUSES, CLAIM_VERDICTS
from dashboards.review.api import LIST_OPTIONS, list_options
from dashboards.review.asking import options_of, query_of, reviewer_of, window_of
from dashboards.review.desk import Desk
from dashboards.review.render import environment, linked
from dashboards.review.week import STATES
from dashboards.windows import Window, iso_week

_LIST = ("segment", "limit", "q", "state")
_WEEKS_OFFERED = 9


def page_routes(desk: Desk) -> list[Route]:
    """Return the routes of the pages."""

    async def week(request: Request) -> Response:
        window = window_of(request, "review")
        options = list_options(options_of(request, {*LIST_OPTIONS, "blind"}, "the page"))
        if options["state"] not in ("", *STATES):
            raise HTTPException(400, f"state: must be one of {', '.join(STATES)}")
        query = query_of(request, _LIST)
        now = datetime.now(UTC)
        key = (reviewer_of(request), query)
        found = await desk.week(window, **options, key=key, now=now)
        ready = sum(one.state == "accepted" for one in await desk.reviewed())
        return page(
            request,
            "week.html.j2",
            week=found,
            query=query,
            asked=request.query_params,
            days=_days(window),
            weeks=_weeks(window, now),
            states=STATES,
            ready=ready,
            golden_file=desk.config.golden_file and desk.config.golden_file.name,
        )

    async def conversation(request: Request) -> Response:
        window = window_of(request, "review")
        given = options_of(request, {*LIST_OPTIONS, "turn", "blind"}, "the page")
        name, query = linked(request.path_params["name"]), query_of(request, _LIST)
        found = await desk.conversation(
            name,
            reviewer=reviewer_of(request),
            focus=given.get("turn", ""),
            blind=given.get("blind") == "1",
        )
        if found is None:
            raise HTTPException(404, "This conversation is not stored, or no longer.")
        key = (reviewer_of(request), query)
        order = await desk.neighbours(key, window, **list_options(given))
        return page(
            request,
            "conversation.html.j2",
            conversation=found,
            query=query,
            **_place(order, name),
            verdicts=CLAIM_VERDICTS,
            answers=ANSWER_LABELS,
            causes=CAUSES,
            trace_url=desk.config.trace_url,
        )

    async def sample(request: Request) -> Response:
        window = window_of(request, "review")
        given = options_of(request, {*LIST_OPTIONS, "blind"}, "the page")
        return page(
            request,
            "sample.html.j2",
            claims=await desk.sample(window, given.get("segment", ""), reviewer_of(request)),
            query=query_of(request, _LIST),
            verdicts=CLAIM_VERDICTS,
        )

    async def promote(request: Request) -> Response:
        options_of(request, {*LIST_OPTIONS, "blind"}, "the page")
        found = await desk.draft(linked(request.path_params["trace_id"]))
        if found is None:
            raise HTTPException(404, "This request is not stored, or holds no question.")
        return page(
            request,
            "promote.html.j2",
            draft=found,
            row=found["candidate"].row or found["made"],
            query=query_of(request, _LIST),
            golden_file=desk.config.golden_file and desk.config.golden_file.name,
        )

    return [
        Route("/", week),
        Route("/conversation/{name:path}", conversation),
        Route("/sample", sample),
        Route("/promote/{trace_id:path}", promote),
    ]


def error_page(request: Request, status: int, message: str) -> Response:
    """Return an error as a person reads it."""
    return page(request, "error.html.j2", status=status, code=status, message=message)


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """Return a page of a template, with what all pages show."""
    text = (
        environment()
        .get_template(template)
        .render(
            **values,
            reviewer=reviewer_of(request),
            login=_login(request),
            blind=request.query_params.get("blind") == "1",
        )
    )
    return HTMLResponse(text, status)


def _login(request: Request) -> str:
    """Return how somebody is logged in: `session`, which ends here, `proxy`, or ""."""
    return next(iter(request.auth.scopes), "") if request.user.is_authenticated else ""


def _place(order: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return where a conversation stands in the list, and what comes before and after it."""
    at = next((n for n, item in enumerate(order) if item["conversation_id"] == name), None)
    if at is None:
        return {"item": None, "position": None, "previous": None, "next": None, "listed": 0}
    return {
        "item": order[at],
        "position": at + 1,
        "previous": order[at - 1] if at else None,
        "next": order[at + 1] if at + 1 < len(order) else None,
        "listed": len(order),
    }


def _weeks(window: Window, now: datetime) -> dict[str, Any]:
    """Return the weeks to choose from, and those beside the one that is shown."""
    monday = now - timedelta(days=now.weekday())
    names = [_name(monday - timedelta(weeks=n)) for n in range(_WEEKS_OFFERED)]
    name = _name(window.since)
    shown = name if iso_week(name) == window else None
    if shown and shown not in names:
        names.append(shown)
    return {
        "names": names,
        "shown": shown,
        "before": _name(window.since - timedelta(weeks=1)) if shown else _name(monday),
        "after": _name(window.until) if shown and window.until <= now else None,
    }


def _days(window: Window) -> str:
    hours = round((window.until - window.since) / timedelta(hours=1))
    count, unit = (hours // 24, "day") if hours >= 24 else (hours, "hour")
    return unit if count == 1 else f"{count} {unit}s"


def _name(day: datetime) -> str:
    return f"{day:%G}-W{day:%V}"
