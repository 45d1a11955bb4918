"""A real HTTP assistant for tests that ask it golden questions, counting what it was asked."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes.serving import Served

Body = dict[str, Any]


class AssistantServer(Served):
    """Answers at `url`, on a free port of the loopback, in a thread of its own.

    Args:
        answer: makes the response from the body; a dict is sent as JSON.
        latency_seconds: waited before every answer.
    """

    def __init__(
        self, answer: Callable[[Body], Body | Response], latency_seconds: float = 0.0
    ) -> None:
        self._answer = answer
        self._latency_seconds = latency_seconds
        self.asked: Counter[str] = Counter()
        """How often each question came, by its `id` where one is sent, else by its text."""
        self.at_once = 0
        """Most questions that were under way at the same time."""
        self.started: list[float] = []
        """When each question came, in seconds on the monotonic clock."""
        self.headers: list[dict[str, str]] = []
        self._now = 0
        super().__init__(Starlette(routes=[Route("/ask", self._ask, methods=["POST"])]))
        self.url = f"{self.root}/ask"

    async def _ask(self, request: Request) -> Response:
        body: Body = await request.json()
        self.started.append(time.monotonic())
        self.headers.append(dict(request.headers))
        self.asked[str(body.get("id") or body.get("question"))] += 1
        self._now += 1
        self.at_once = max(self.at_once, self._now)
        try:
            await asyncio.sleep(self._latency_seconds)
            answer = self._answer(body)
        finally:
            self._now -= 1
        return answer if isinstance(answer, Response) else JSONResponse(answer)
