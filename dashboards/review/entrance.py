"""The way in and out: the page that asks for a password, and what those see who may not enter."""

from __future__ import annotations

from urllib.parse import parse_qs, quote

from starlette.authentication import AuthenticationError, UnauthenticatedUser
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from dashboards.review.asking import body_of, refuse_other_pages
from dashboards.review.login import COOKIE, Door, TooManyTries
from dashboards.review.pages import error_page, page
from dashboards.review.sessions import SESSION_SECONDS

_MOST_BYTES = 16 * 1024
_FORM = "application/x-www-form-urlencoded"


def entrance_routes(door: Door, *, secure: bool) -> list[Route]:
    """Return the routes for logging in and out.

    Args:
        door: that checks passwords.
        secure: whether people come by https, so that the session never goes another way.
    """

    async def ask(request: Request) -> Response:
        onward = _own_address(request.query_params.get("next", ""))
        if request.user.is_authenticated or not door.has_passwords:
            return RedirectResponse(onward, 303)
        return page(request, "login.html.j2", onward=onward, problem="", name="")

    async def enter(request: Request) -> Response:
        refuse_other_pages(request)
        form = await _form(request)
        name, onward = form.get("name", "").strip(), _own_address(form.get("next", ""))
        address = request.client.host if request.client else ""
        wait, session = 0, None
        try:
            session = await door.session(name, form.get("password", ""), address)
        except TooManyTries as err:
            wait = err.seconds
        if session is not None:
            answer: Response = RedirectResponse(onward, 303)
            safely = secure or request.headers.get("x-forwarded-proto") == "https"
            answer.set_cookie(
                COOKIE, session, SESSION_SECONDS, httponly=True, samesite="lax", secure=safely
            )
            return answer
        problem = f"Too many tries. Wait {wait} seconds." if wait else "Wrong name or password."
        refusal = page(
            request,
            "login.html.j2",
            status=429 if wait else 401,
            onward=onward,
            problem=problem,
            name=name,
        )
        if wait:
            refusal.headers["retry-after"] = str(wait)
        return refusal

    async def leave(request: Request) -> Response:
        refuse_other_pages(request)
        if "session" in request.auth.scopes:
            await door.leave(request.user.display_name)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer

    return [
        Route("/login", ask),
        Route("/login", enter, methods=["POST"]),
        Route("/logout", leave, methods=["POST"]),
    ]


def turned_away(door: Door, conn: HTTPConnection, error: AuthenticationError) -> Response:
    """Answer those who may not enter: people are asked to log in, programs are told."""
    path = conn.scope["path"]
    is_person = "text/html" in conn.headers.get("accept", "") and not path.startswith("/api")
    if not is_person:
        return JSONResponse({"error": str(error)}, 401, headers={"www-authenticate": "Bearer"})
    if door.has_passwords:
        query = conn.scope["query_string"].decode("latin-1")
        onward = quote(conn.url.path) + (f"?{query}" if query else "")
        return RedirectResponse(f"/login?next={quote(onward, safe='')}", 303)
    conn.scope["user"] = UnauthenticatedUser()
    return error_page(Request(conn.scope), 403, f"{str(error)[:1].upper()}{str(error)[1:]}.")


def _own_address(onward: str) -> str:
    """Return where to go on, if that is a page of ours; else the first one."""
    own = onward.startswith("/") and onward.isprintable() and "\\" not in onward
    return onward if own and not onward.startswith("//") else "/"


async def _form(request: Request) -> dict[str, str]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM:
        raise HTTPException(415, f"content-type: must be {_FORM}")
    body = await body_of(request, _MOST_BYTES)
    try:
        return {key: values[-1] for key, values in parse_qs(body.decode()).items()}
    except ValueError as err:
        raise HTTPException(400, "the body is not a form") from err
