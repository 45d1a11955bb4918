"""The OTLP/gRPC receiver. Handlers take and give bytes, so a body is parsed once, by the intake.

A call succeeds once its body is in the journal. Backpressure is RESOURCE_EXHAUSTED or
UNAVAILABLE with a RetryInfo: without it, exporters give a RESOURCE_EXHAUSTED body up.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import grpc
import structlog
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from pydantic import SecretStr

from collector.config import ReceiveConfig
from collector.errors import (
    GroundwatchError,
    MalformedPayload,
    Overloaded,
    PermanentDependencyError,
)
from collector.ports import Journal
from collector.receivers.density import TooManyValues
from collector.receivers.intake import RETRY_SECONDS, BodyMemory, Intake, TelemetryKind
from collector.receivers.login import HOW_TO_LOG_IN, may_send
from collector.receivers.replies import PROTOBUF, export_response
from collector.telemetry import Metrics, RateLimitedLog

TRACES = "opentelemetry.proto.collector.trace.v1.TraceService"
LOGS = "opentelemetry.proto.collector.logs.v1.LogsService"
GRACE_SECONDS = 1.0


class _Refusal(NamedTuple):
    """How a call that was not taken in is answered and counted."""

    code: grpc.StatusCode
    reason: str
    message: str
    retry_seconds: float | None = None


class GrpcReceiver:
    """TraceService and LogsService on one address."""

    def __init__(
        self,
        journal: Journal,
        config: ReceiveConfig,
        metrics: Metrics,
        token: SecretStr | None,
    ) -> None:
        """Prepare; nothing listens before `start`.

        Args:
            journal: where bodies go before they are acknowledged.
            config: largest body, and how long it may take.
            metrics: where calls are counted, as transport `grpc`.
            token: what senders must show; None lets everybody in.
        """
        self._intake = Intake(journal, metrics, "grpc")
        self._memory = BodyMemory(config.max_body_bytes)
        self._max_bytes = config.max_body_bytes
        self._body_seconds = config.body_seconds
        self._token = token
        self._log = RateLimitedLog()
        self._server: Any = None

    async def start(self, address: str) -> int:
        """Listen on host:port and return the port, the real one where 0 was asked for.

        Raises:
            PermanentDependencyError: the address cannot be used.
        """
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", self._max_bytes),
                # Else a second agent would silently share the port.
                ("grpc.so_reuseport", 0),
            ]
        )
        server.add_generic_rpc_handlers(
            (self._handlers(TRACES, "otlp_traces"), self._handlers(LOGS, "otlp_logs"))
        )
        try:
            port = int(server.add_insecure_port(address))
        except RuntimeError as err:
            raise PermanentDependencyError(
                f"listen.otlp_grpc: {address} cannot be used; stop what listens there or set "
                "another address"
            ) from err
        await server.start()
        self._server = server
        return port

    async def stop(self) -> None:
        """Finish what is under way, then close. May be called twice, or without a start."""
        if self._server is not None:
            await self._server.stop(GRACE_SECONDS)

    def _handlers(self, service: str, kind: TelemetryKind) -> Any:
        async def export(bodies: AsyncIterator[bytes], context: Any) -> bytes:
            outcome = await self._export(kind, bodies, context)
            if isinstance(outcome, bytes):
                return outcome
            self._intake.refused(outcome.reason)
            await context.abort(outcome.code, outcome.message, _details(outcome))
            return b""

        # No serializers: bytes in, bytes out. A stream of one body is the same on the wire, and
        # lets the handler run before the body is there.
        return grpc.method_handlers_generic_handler(
            service, {"Export": grpc.stream_unary_rpc_method_handler(export)}
        )

    async def _export(
        self, kind: TelemetryKind, bodies: AsyncIterator[bytes], context: Any
    ) -> bytes | _Refusal:
        """Return the response message, or why there is none."""
        if not may_send(_authorization(context), self._token):
            return _Refusal(grpc.StatusCode.UNAUTHENTICATED, "unauthenticated", HOW_TO_LOG_IN)
        try:
            async with asyncio.timeout(self._body_seconds):
                body = await anext(bodies, b"")
        except TimeoutError:
            return _Refusal(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                "too_slow",
                f"the body was not complete after {self._body_seconds:g} s; send smaller batches "
                "or raise receive.body_seconds",
            )
        try:
            with self._memory.share() as take:
                take(len(body))
                found = await self._intake.telemetry(kind, body, PROTOBUF)
        except GroundwatchError as err:
            return self._explain(err)
        except Exception as err:
            # Its message may hold what a user wrote, so only its type is told.
            structlog.get_logger().error("request_failed", error=type(err).__name__)
            message = "the agent has a bug; its log names it"
            return _Refusal(grpc.StatusCode.INTERNAL, "internal", message)
        return export_response(kind, found)

    def _explain(self, err: GroundwatchError) -> _Refusal:
        if isinstance(err, MalformedPayload):
            return _Refusal(grpc.StatusCode.INVALID_ARGUMENT, "malformed", str(err))
        if isinstance(err, TooManyValues):
            return _Refusal(grpc.StatusCode.INVALID_ARGUMENT, "too_large", str(err))
        if isinstance(err, Overloaded):
            return _Refusal(
                grpc.StatusCode.RESOURCE_EXHAUSTED, err.reason, str(err), err.retry_after_seconds
            )
        self._log.warning("journal_unavailable", error=str(err))
        message = "the journal cannot be written now; the log of the agent says why"
        return _Refusal(grpc.StatusCode.UNAVAILABLE, "unavailable", message, RETRY_SECONDS)


def _authorization(context: Any) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization":
            return value if isinstance(value, str) else ""
    return ""


def _details(refusal: _Refusal) -> tuple[tuple[str, bytes], ...]:
    """Return the trailing metadata that carries the full google.rpc.Status."""
    if refusal.retry_seconds is None:
        return ()
    retry = RetryInfo()
    retry.retry_delay.seconds = max(1, math.ceil(refusal.retry_seconds))
    detail = AnyMessage()
    detail.Pack(retry)
    status = Status(code=refusal.code.value[0], message=refusal.message, details=[detail])
    return (("grpc-status-details-bin", status.SerializeToString()),)
