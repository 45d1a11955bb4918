"""What the apps talk to: a model that always answers the same, and a collector of their spans."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fakes.serving import Served
from tests.live.apps.shop import ANSWER, INPUT_TOKENS, OUTPUT_TOKENS, QUESTION

Body = dict[str, Any]
USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


class Endpoints(Served):
    """Both in one server on a free port of the loopback. A context manager.

    The model asks for the first tool it is offered, with the question, and answers once it has
    the result. Anything posted to a path that ends in `/v1/traces` is kept in `received`, as
    body and content type; all other calls are answered by an empty object.
    """

    def __init__(self) -> None:
        self.received: list[tuple[bytes, str]] = []
        routes = [
            Route("/v1/chat/completions", _complete, methods=["POST"]),
            Route("/v1/responses", _respond, methods=["POST"]),
            Route("/{path:path}", self._take, methods=["GET", "POST"]),
        ]
        super().__init__(Starlette(routes=routes))
        self.url = self.root

    async def _take(self, request: Request) -> Response:
        if not request.url.path.endswith("/v1/traces"):
            return JSONResponse({})
        body = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.received.append((body, request.headers.get("content-type", "")))
        return Response(b"", media_type="application/x-protobuf")


async def _complete(request: Request) -> Response:
    """Answer a chat completion, in pieces where that is asked for."""
    asked: Body = await request.json()
    call = _tool_call(asked, done=asked["messages"][-1]["role"] == "tool")
    message: Body = {"role": "assistant", "content": None if call else ANSWER, "refusal": None}
    if call:
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
    if asked.get("stream"):
        return StreamingResponse(_events(asked, message), media_type="text/event-stream")
    reason = "tool_calls" if call else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    return JSONResponse(_envelope(asked, "chat.completion", [choice], USAGE))


async def _respond(request: Request) -> Response:
    """Answer a call of the Responses API."""
    asked: Body = await request.json()
    given = asked["input"] if isinstance(asked["input"], list) else []
    done = any(item.get("type") == "function_call_output" for item in given)
    call = _tool_call(asked, done=done)
    said = {"type": "output_text", "text": ANSWER, "annotations": []}
    output: Body = (
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", **call}
        if call
        else {"type": "message", "id": "msg_1", "role": "assistant", "content": [said]}
    )
    return JSONResponse(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1_700_000_000,
            "status": "completed",
            "model": asked["model"],
            "output": [output | {"status": "completed"}],
            "usage": {
                "input_tokens": INPUT_TOKENS,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": OUTPUT_TOKENS,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            },
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )


def _tool_call(asked: Body, *, done: bool) -> Body | None:
    """Return a call of the first tool on offer with the question, None once it was called."""
    if done or not asked.get("tools"):
        return None
    tool = asked["tools"][0]
    name = tool.get("function", tool)["name"]
    return {"name": name, "arguments": json.dumps({"query": QUESTION})}


def _events(asked: Body, message: Body) -> Iterator[str]:
    """Yield a message in pieces as server-sent events, usage in the last one."""
    text = message["content"]
    words = [{"content": f" {word}" if n else word} for n, word in enumerate((text or "").split())]
    calls = [call | {"index": 0} for call in message.get("tool_calls", [])]
    for delta in words if text else [{"tool_calls": calls}]:
        choices = [{"index": 0, "delta": {"role": "assistant", **delta}}]
        yield _event(_envelope(asked, "chat.completion.chunk", choices, None))
    reason = "stop" if text else "tool_calls"
    ended = [{"index": 0, "delta": {}, "finish_reason": reason}]
    yield _event(_envelope(asked, "chat.completion.chunk", ended, USAGE))
    yield "data: [DONE]\n\n"


def _event(value: Body) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _envelope(asked: Body, kind: str, choices: list[Body], usage: Body | None) -> Body:
    return {
        "id": "chatcmpl-1",
        "object": kind,
        "created": 1_700_000_000,
        "model": asked["model"],
        "choices": choices,
        "usage": usage,
    }
