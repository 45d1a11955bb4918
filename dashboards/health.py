"""Health checks over HTTP, for whatever looks after the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from collector.errors import DependencyError


def health_routes(
    stalled: Callable[[], list[str]], ping: Callable[[], Awaitable[None]], agent_id: str
) -> list[Route]:
    """Return /healthz, 503 while a part stands still, and /readyz, 503 while the store is away.

    Args:
        stalled: names the loops of the agent that no longer turn.
        ping: raises a DependencyError where the store does not answer.
        agent_id: by which commands know that this is the agent they look for.
    """

    async def healthz(_: Request) -> Response:
        loops = stalled()
        told = {"ok": not loops, "stalled": loops, "agent": agent_id}
        return JSONResponse(told, 503 if loops else 200)

    async def readyz(_: Request) -> Response:
        try:
            await ping()
        except DependencyError as err:
            return JSONResponse({"error": str(err)}, 503, headers={"retry-after": "5"})
        return JSONResponse({"ok": True})

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
