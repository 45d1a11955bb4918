"""The OTLP/HTTP receiver, `POST /v1/signals` and its like: a bare ASGI app, for its speed.

A body is answered 200 once it is in the journal, never before. What may succeed later is
answered 429 or 503 with Retry-After, which exporters retry; 500 would make them drop the body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import structlog
from pydantic import SecretStr
from starlette.types import Receive, Scope, Send

from collector.config import ReceiveConfig
from collector.errors import GroundwatchError, MalformedPayload, Overloaded
from collector.ports import Journal
from collector.receivers.compression import BodyTooLarge, UnknownEncoding, decompress
from collector.receivers.cors import headers_for, may_post, preflight
from collector.receivers.density import TooManyValues
from collector.receivers.feedback import Call, call_of, greeting_of, methods_of
from collector.receivers.intake import RETRY_SECONDS, BodyMemory, Intake, compute
from collector.receivers.login import HOW_TO_LOG_IN, may_send
from collector.receivers.replies import (
    JSON,
    PROTOBUF,
    Format,
    Reply,
    error_reply,
    format_of,
    json_reply,
    retry_after,
    telemetry_reply,
)
from collector.signals import Client
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, SystemClock

Target = Literal["traces", "logs", "metrics"]
WHERE_TO_POST = (
    "post to /v1/traces, /v1/logs, /v1/metrics or /v1/signals; for OpenTelemetry SDKs set "
    "OTEL_EXPORTER_OTLP_ENDPOINT to scheme, host and port alone, they add the path"
)
WHO_MAY_POST = (
    "signals of this web page are not taken; name its origin in receive.cors_origins, or send "
    "them by way of your own server"
)


class _Refused(GroundwatchError):
    """A request that is refused for what it is, before or without a look into its body."""

    def __init__(
        self, status: int, reason: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.headers = headers or {}


class _Gone(Exception):
    """The client hung up before its body was complete."""


class _Request(NamedTuple):
    """What counts of a request beside its body; header values are "" where they are absent."""

    method: str
    path: str
    content_type: str
    encoding: str
    authorization: str
    origin: str
    asked_headers: str
    length: int


def build_app(
    journal: Journal,
    config: ReceiveConfig,
    metrics: Metrics,
    token: SecretStr | None,
    clock: Clock | None = None,
) -> OtlpHttpApp:
    """Return the ASGI app of port 4318.

    Args:
        journal: where bodies go before they are acknowledged.
        config: largest body, names of feedback, pages that may post signals.
        metrics: where calls are counted, as transport `http`.
        token: what senders must show; None lets everybody in.
        clock: the time of signals that give none; the machine's by default.
    """
    return OtlpHttpApp(journal, config, metrics, token, clock or SystemClock())


class OtlpHttpApp:
    """ASGI app; see `build_app`."""

    def __init__(
        self,
        journal: Journal,
        config: ReceiveConfig,
        metrics: Metrics,
        token: SecretStr | None,
        clock: Clock,
    ) -> None:
        """Hold what `build_app` was given."""
        self._intake = Intake(journal, metrics, "http")
        self._config = config
        self._max_bytes = config.max_body_bytes
        self._token = token
        self._clock = clock
        self._memory = BodyMemory(config.max_body_bytes)
        self._log = RateLimitedLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = _request_of(scope)
        try:
            reply = await self._reply(request, receive)
        except _Gone:
            return
        headers = {**reply.headers, "content-length": str(len(reply.body))}
        if request.origin and may_post(request.origin, self._config.cors_origins):
            headers |= headers_for(request.origin)
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
        await send({"type": "http.response.body", "body": reply.body})

    async def _reply(self, request: _Request, receive: Receive) -> Reply:
        form = format_of(request.content_type)
        try:
            call = self._call(request)
            if isinstance(call, Reply):
                return call
            self._check_login(request)
            with self._memory.share() as take:
                body = await self._body_in_time(request, receive, take)
                if isinstance(call, Call):
                    form = JSON
                    return await self._take_signals(call, body)
                form = format_of(request.content_type, body)
                return await self._take_in(call, body, request.content_type, form)
        except GroundwatchError as err:
            return self._refusal(err, form)
        except _Gone:
            raise
        except Exception as err:
            # Its message may hold what a user wrote, so only its type is told.
            structlog.get_logger().error("request_failed", error=type(err).__name__)
            self._intake.refused("internal")
            return error_reply(500, "the agent has a bug; its log names it", form)

    def _call(self, request: _Request) -> Call | Target | Reply:
        """Return what the request brings, or the answer where that needs no look into a body."""
        methods = methods_of(request.path)
        if not methods:
            return greeting_of(request.method, request.path) or _target_of(request)
        if not may_post(request.origin, self._config.cors_origins):
            raise _Refused(403, "origin", WHO_MAY_POST)
        if request.method == "OPTIONS" and request.origin:
            return preflight(methods, request.asked_headers)
        call = call_of(request.method, request.path)
        if call is None:
            allow = ", ".join(methods)
            raise _Refused(405, "method", f"only {allow} is answered here", {"allow": allow})
        return call

    def _check_login(self, request: _Request) -> None:
        if not may_send(request.authorization, self._token):
            headers = {"www-authenticate": "Bearer"}
            raise _Refused(401, "unauthenticated", HOW_TO_LOG_IN, headers)

    async def _take_in(self, target: Target, body: bytes, content_type: str, form: Format) -> Reply:
        if target == "traces":
            found = await self._intake.telemetry("otlp_traces", body, content_type)
            return telemetry_reply("otlp_traces", found, form)
        if target == "logs":
            found = await self._intake.telemetry("otlp_logs", body, content_type)
            return telemetry_reply("otlp_logs", found, form)
        # One exporter often sends all three, and an error would fill its log for nothing.
        self._intake.refused("metrics_not_kept")
        return json_reply({}) if form == JSON else Reply(200, {"content-type": PROTOBUF}, b"")

    async def _take_signals(self, call: Call, body: bytes) -> Reply:
        client = Client(self._clock.now(), self._config.feedback)
        parsed = await self._intake.signals(body, lambda raw: call.read(raw, client))
        if "unnamed" in parsed.ignored:
            self._log.warning("scores_ignored", cure="name users' scores in receive.feedback")
        return call.answer(parsed)

    async def _body_in_time(
        self, request: _Request, receive: Receive, take: Callable[[int], None]
    ) -> bytes:
        """Read the body, unless its sender stalls: it holds memory that others wait for."""
        try:
            async with asyncio.timeout(self._config.body_seconds):
                return await self._body(request, receive, take)
        except TimeoutError:
            raise _Refused(
                408,
                "too_slow",
                f"the body was not complete after {self._config.body_seconds:g} s; send smaller "
                "batches or raise receive.body_seconds",
                {"connection": "close"},
            ) from None

    async def _body(
        self, request: _Request, receive: Receive, take: Callable[[int], None]
    ) -> bytes:
        """Read the body and decompress it, under all bounds."""
        if request.length > self._max_bytes:
            raise BodyTooLarge(self._max_bytes)
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            chunk = message.get("body", b"")
            more = message.get("more_body", False)
            size += len(chunk)
            if size > self._max_bytes:
                raise BodyTooLarge(self._max_bytes)
            take(len(chunk))
            chunks.append(chunk)
        raw = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if not request.encoding:
            return raw
        likely_size = 4 * len(raw)
        body = await compute(likely_size, decompress, raw, request.encoding, self._max_bytes)
        take(len(body))
        return body

    def _refusal(self, err: GroundwatchError, form: Format) -> Reply:
        """Count and answer a request that was not taken in."""
        status, reason, message, headers = self._explain(err)
        self._intake.refused(reason)
        return error_reply(status, message, form, headers)

    def _explain(self, err: GroundwatchError) -> tuple[int, str, str, dict[str, str]]:
        """Return status, reason as counted, message and headers for an error."""
        if isinstance(err, _Refused):
            return err.status, err.reason, str(err), err.headers
        if isinstance(err, MalformedPayload):
            return 400, "malformed", str(err), {}
        if isinstance(err, BodyTooLarge | TooManyValues):
            return 413, "too_large", str(err), {}
        if isinstance(err, UnknownEncoding):
            return 415, "encoding", str(err), {"accept-encoding": "gzip, deflate"}
        if isinstance(err, Overloaded):
            return 429, err.reason, str(err), retry_after(err.retry_after_seconds)
        self._log.warning("journal_unavailable", error=str(err))
        message = "the journal cannot be written now; the log of the agent says why"
        return 503, "unavailable", message, retry_after(RETRY_SECONDS)


def _request_of(scope: Scope) -> _Request:
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    length = headers.get(b"content-length", "")
    return _Request(
        method=scope["method"],
        path=scope["path"],
        content_type=headers.get(b"content-type", ""),
        encoding=headers.get(b"content-encoding", ""),
        authorization=_authorization(headers),
        origin=headers.get(b"origin", ""),
        asked_headers=headers.get(b"access-control-request-headers", ""),
        length=int(length) if length.isdecimal() else 0,
    )


def _authorization(headers: dict[bytes, str]) -> str:
    """Return what a sender shows; some clients know a header of their own for it."""
    if found := headers.get(b"authorization"):
        return found
    key = headers.get(b"x-api-key") or headers.get(b"api_key")
    return f"Bearer {key}" if key else ""


def _target_of(request: _Request) -> Target:
    """Find out what a request brings, by how its path ends.

    Exporters are often given a URL that already has a path, and add theirs: what comes is
    /v1/traces/v1/traces, or a prefix of another product. No need to lose spans over that.
    """
    targets: tuple[Target, ...] = get_args(Target)
    for target in targets:
        if request.path.rstrip("/").endswith(f"/v1/{target}"):
            if request.method != "POST":
                raise _Refused(405, "method", "only POST is answered here", {"allow": "POST"})
            return target
    raise _Refused(404, "not_found", WHERE_TO_POST)
