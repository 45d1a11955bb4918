"""A real HTTP server that answers like /v1/chat/completions, one scripted behaviour per call.

    with OpenAIServer([rate_limited(retry_after="1"), good()]) as server:
        ...  # point a client at server.base_url
    assert len(server.requests) == 2

After the script is used up the server behaves as `default` says. It reads the judge's own
protocol: the last user message is a JSON object with the data. Claims are the sentences of
`answer`; a claim is supported if one sentence of `documents` holds most of its words and all of
its numbers.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tests.fakes.serving import Served

Body = dict[str, Any]
Behaviour = Callable[[Body], Awaitable[Response]]


class Received(NamedTuple):
    """One call as it came in. `at` is on the monotonic clock, in seconds."""

    at: float
    headers: dict[str, str]
    body: Body


class OpenAIServer(Served):
    """The server, on a free port of the loopback, in a thread of its own.

    Args:
        behaviours: what to do with the first calls, in order of arrival.
        default: what to do with all later calls; `good()` by default.
        latency_seconds: waited before every reply.
        routes: what it answers besides.
    """

    def __init__(
        self,
        behaviours: Sequence[Behaviour] = (),
        *,
        default: Behaviour | None = None,
        latency_seconds: float = 0.0,
        routes: Sequence[Route] = (),
    ) -> None:
        self.requests: list[Received] = []
        self._script = deque(behaviours)
        self._default = default or good()
        self._latency_seconds = latency_seconds
        chat = Route("/v1/chat/completions", self._complete, methods=["POST"])
        super().__init__(Starlette(routes=[chat, *routes]))
        self.base_url = f"{self.root}/v1"

    async def _complete(self, request: Request) -> Response:
        body: Body = await request.json()
        self.requests.append(Received(time.monotonic(), dict(request.headers), body))
        behaviour = self._script.popleft() if self._script else self._default
        await asyncio.sleep(self._latency_seconds)
        return await behaviour(body)


def refused_port() -> int:
    """Return a port on which nobody listens."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# --- Behaviours --------------------------------------------------------------------------


def good() -> Behaviour:
    """Judge honestly: claims are sentences, a claim is supported by a sentence with its words."""

    async def behave(body: Body) -> Response:
        return _completion(body, json.dumps(_honest(body)))

    return behave


def text(content: str, *, usage: Body | None = None) -> Behaviour:
    """Reply with this text whatever is asked."""

    async def behave(body: Body) -> Response:
        return _completion(body, content, usage=usage)

    return behave


def invented_quote() -> Behaviour:
    """Support every claim with a sentence that stands nowhere."""

    async def behave(body: Body) -> Response:
        reply = _honest(body)
        for verdict in reply.get("verdicts", []):
            verdict |= {
                "verdict": "SUPPORTED",
                "quote": "This sentence was made up by the judge itself",
                "document": 1,
            }
        return _completion(body, json.dumps(reply))

    return behave


def cut_reply() -> Behaviour:
    """Hit the output limit in the middle of the JSON."""

    async def behave(body: Body) -> Response:
        reply = json.dumps(_honest(body))
        return _completion(body, reply[: len(reply) // 2], finish_reason="length")

    return behave


def wrong_json() -> Behaviour:
    """Answer in prose."""
    return text("Sure! All of the claims look fine to me.")


def schema_violation() -> Behaviour:
    """Answer in JSON of another shape."""
    return text('{"claims": "none", "verdicts": [{"id": "one", "verdict": "MAYBE"}]}')


def dropped_verdict() -> Behaviour:
    """Judge all claims but the last, and one twice in its place."""

    async def behave(body: Body) -> Response:
        reply = _honest(body)
        if verdicts := reply.get("verdicts"):
            verdicts[-1] = verdicts[0]
        return _completion(body, json.dumps(reply))

    return behave


def no_choices() -> Behaviour:
    """Answer 200 with an empty list of choices."""

    async def behave(body: Body) -> Response:
        return JSONResponse(_envelope(body, []))

    return behave


def refusal() -> Behaviour:
    """Refuse as the model, in the field made for it."""

    async def behave(body: Body) -> Response:
        message = {"role": "assistant", "content": None, "refusal": "I can't help with that."}
        return JSONResponse(_envelope(body, [_choice(message, "stop")]))

    return behave


def content_filter() -> Behaviour:
    """Stop the reply by the provider's content filter."""

    async def behave(body: Body) -> Response:
        return _completion(body, "", finish_reason="content_filter")

    return behave


def content_filter_error() -> Behaviour:
    """Reject the prompt by a content filter, as some providers do."""
    return _error(400, "The response was filtered.", "invalid_request_error", "content_filter")


def context_length_exceeded() -> Behaviour:
    """Say that the prompt is too long."""
    return _error(
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in "
        "9000 tokens. Please reduce the length of the messages.",
        "invalid_request_error",
        "context_length_exceeded",
        "messages",
    )


def bad_request() -> Behaviour:
    """Reject the call for a reason of its own."""
    return _error(400, "Unknown parameter: 'x'.", "invalid_request_error", "unknown_parameter", "x")


def unauthorized(status: int = 401) -> Behaviour:
    """Reject the key."""
    return _error(status, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key")


def rate_limited(
    retry_after: str | None = None,
    *,
    milliseconds: str | None = None,
    code: str = "rate_limit_exceeded",
) -> Behaviour:
    """Answer 429, with Retry-After (seconds or an HTTP date) and retry-after-ms if given."""
    given = {"Retry-After": retry_after, "retry-after-ms": milliseconds}
    headers = {name: value for name, value in given.items() if value is not None}
    return _error(429, "Rate limit reached.", "requests", code, headers=headers)


def server_error(status: int = 500) -> Behaviour:
    """Fail inside."""
    return _error(status, "The server had an error.", "server_error", None)


def html_page() -> Behaviour:
    """Answer 200 with a page, as a wrong base URL or a proxy does."""

    async def behave(_: Body) -> Response:
        return Response("<html><body>It works!</body></html>", media_type="text/html")

    return behave


def body(value: object) -> Behaviour:
    """Answer 200 with this JSON, whatever it is."""

    async def behave(_: Body) -> Response:
        return JSONResponse(value)

    return behave


def slow(seconds: float) -> Behaviour:
    """Judge honestly, but only after a while."""

    async def behave(body: Body) -> Response:
        await asyncio.sleep(seconds)
        return await good()(body)

    return behave


def connection_drop() -> Behaviour:
    """Close the connection in the middle of the reply."""

    async def behave(_: Body) -> Response:
        return _Dropped()

    return behave


def unsupported(parameter: str, then: Behaviour | None = None) -> Behaviour:
    """Reject every call that uses a parameter; `json_schema` is the response format of that name.

    Calls without it are answered by `then`, `good()` by default.
    """

    async def behave(body: Body) -> Response:
        used = (
            body.get("response_format", {}).get("type") == "json_schema"
            if parameter == "json_schema"
            else parameter in body
        )
        if not used:
            return await (then or good())(body)
        name = "response_format" if parameter == "json_schema" else parameter
        reject = _error(
            400,
            f"Unsupported value: '{parameter}' is not supported with this model.",
            "invalid_request_error",
            "unsupported_value",
            name,
        )
        return await reject(body)

    return behave


class StatedLimit:
    """Serves so many calls in any second, or some seconds, wherever they begin.

    Answers more with 429; `violations` counts those.
    """

    def __init__(
        self, per_second: int, then: Behaviour | None = None, seconds: float = 1.0
    ) -> None:
        self.violations = 0
        self._most = per_second * seconds
        self._seconds = seconds
        self._then = then or good()
        self._served: deque[float] = deque()

    async def __call__(self, body: Body) -> Response:
        now = time.monotonic()
        while self._served and self._served[0] <= now - self._seconds:
            self._served.popleft()
        if len(self._served) >= self._most:
            self.violations += 1
            return await rate_limited("1")(body)
        self._served.append(now)
        return await self._then(body)


class _Dropped(Response):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"id": "chat', "more_body": False})


def _error(
    status: int,
    message: str,
    kind: str,
    code: str | None,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> Behaviour:
    async def behave(_: Body) -> Response:
        error = {"message": message, "type": kind, "param": param, "code": code}
        return JSONResponse({"error": error}, status_code=status, headers=headers)

    return behave


# --- Replies -----------------------------------------------------------------------------


def _completion(
    body: Body, content: str, *, finish_reason: str = "stop", usage: Body | None = None
) -> Response:
    message = {"role": "assistant", "content": content, "refusal": None}
    return JSONResponse(_envelope(body, [_choice(message, finish_reason)], content, usage))


def _choice(message: Body, finish_reason: str) -> Body:
    return {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}


def _envelope(
    body: Body, choices: list[Body], content: str = "", usage: Body | None = None
) -> Body:
    """One token per four characters, a quarter of the prompt from the cache."""
    prompt = sum(len(message["content"]) for message in body["messages"]) // 4
    completion = len(content) // 4
    counted = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": prompt // 4},
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": choices,
        "usage": usage or counted,
    }


def data_of(body: Body) -> Body:
    """Return the data that the judge was given: the first user message, a JSON object."""
    first = next(message for message in body["messages"] if message["role"] == "user")
    data: Body = json.loads(first["content"])
    return data


def usage_of(body: Body) -> Body:
    """Return the counts of tokens that `good()` sends with its reply to a call."""
    counted: Body = _envelope(body, [], json.dumps(_honest(body)))["usage"]
    return counted


def _honest(body: Body) -> Body:
    data = data_of(body)
    asked = body.get("response_format", {}).get("json_schema", {}).get("name")
    if asked == "needs":
        return {"needs": sentences(data["question"])}
    if asked == "refusal":
        return {"refused": "not know" in data["answer"]}
    if asked == "helpful":
        return {"documents": [_helpful(one, data["question"]) for one in data["documents"]]}
    if "claims" not in data:
        return {"claims": sentences(data["answer"])}
    found = [
        (document["number"], sentence)
        for document in data["documents"]
        for sentence in sentences(document["text"])
    ]
    return {"verdicts": [_verdict(claim, found) for claim in data["claims"]]}


def _helpful(document: Body, question: str) -> Body:
    """A document helps if one of its sentences shares two words with the question."""
    wanted = _words(question)
    best = max(sentences(document["text"]), key=lambda s: len(wanted & _words(s)), default="")
    helps = len(wanted & _words(best)) >= 2
    return {"document": document["number"], "quote": best if helps else None, "helps": helps}


def _verdict(claim: Body, sentences: list[tuple[int, str]]) -> Body:
    words = _words(claim["text"])
    number, quote = max(
        sentences, key=lambda found: len(words & _words(found[1])), default=(None, "")
    )
    common = words & _words(quote)
    numbers = {word for word in words if word.isdigit()}
    supported = bool(words) and len(common) >= 0.7 * len(words) and numbers <= common
    return {
        "id": claim["id"],
        "quote": quote if supported else None,
        "document": number if supported else None,
        "verdict": "SUPPORTED" if supported else "NOT_FOUND",
    }


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, as `good()` takes it apart."""
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
