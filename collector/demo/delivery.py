"""Sends the demo's spans and signals to the agent, and waits where the agent asks it to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Self

import httpx
import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_delay

from collector.demo.instrumentation import tracer_provider
from collector.errors import PermanentDependencyError, TransientDependencyError

_SPANS_PER_EXPORT = 32
"""Small enough that traces are cut over two exports, as real exporters do."""

_RETRYABLE = frozenset({429, 502, 503, 504})
_TIMEOUT_SECONDS = 10.0
_PATIENCE_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 10.0


class _NotNow(TransientDependencyError):
    """The agent is not there, or told us to come back later."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Delivery:
    """The way from the assistant to one agent. Use as an async context manager.

    Ended spans wait in `pending_spans` until `send_spans`. Nothing is dropped: what cannot be
    delivered within a minute raises.

    Args:
        otlp_url: address of the agent's OTLP/HTTP port, with or without `/v1/traces`.
    """

    def __init__(self, otlp_url: str) -> None:
        self._base = otlp_url.rstrip("/").removesuffix("/v1/traces")
        self._ended = InMemorySpanExporter()
        self.provider = tracer_provider(self._ended)
        self._last_status: int | None = None
        session = requests.Session()
        # The agent is named by its address; a proxy of the environment is not meant for it.
        session.trust_env = False
        session.hooks["response"].append(lambda reply, *_, **__: self._note(reply.status_code))
        self._exporter = OTLPSpanExporter(
            endpoint=f"{self._base}/v1/traces", timeout=_TIMEOUT_SECONDS, session=session
        )
        self._http = httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, trust_env=False)

    async def __aenter__(self) -> Self:
        """Return itself, ready to send."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release connections and the provider; an export that is waiting gives up."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        self.provider.shutdown()
        await self._http.aclose()

    @property
    def pending_spans(self) -> int:
        """Ended spans that are not sent yet."""
        return len(self._ended.get_finished_spans())

    async def send_spans(self) -> int:
        """Export all ended spans in the order they ended; return how many. Runs in a thread.

        Raises:
            TransientDependencyError: the agent did not take them within a minute.
            PermanentDependencyError: the agent refused them for good.
        """
        spans = iter(self._ended.get_finished_spans())
        self._ended.clear()
        sent = 0
        while batch := list(islice(spans, _SPANS_PER_EXPORT)):
            await _patiently(partial(self._export, batch))
            sent += len(batch)
        return sent

    async def post_signals(self, signals: Sequence[dict[str, Any]]) -> int:
        """Post signals as one JSON array; return how many.

        Raises:
            TransientDependencyError: the agent did not take them within a minute.
            PermanentDependencyError: the agent refused them for good.
        """
        if signals:
            await _patiently(partial(self._post, list(signals)))
        return len(signals)

    def _note(self, status: int) -> None:
        self._last_status = status

    async def _export(self, batch: Sequence[ReadableSpan]) -> None:
        self._last_status = None
        result = await asyncio.to_thread(self._exporter.export, batch)
        if result is SpanExportResult.SUCCESS:
            return
        self._give_up_on(self._last_status, "/v1/traces")
        told = f"status {self._last_status}" if self._last_status else "no answer"
        raise _NotNow(
            f"{self._base}/v1/traces: spans were not taken, {told}; is the agent running?"
        )

    async def _post(self, signals: list[dict[str, Any]]) -> None:
        url = f"{self._base}/v1/signals"
        try:
            reply = await self._http.post(url, json=signals)
        except httpx.TransportError as err:
            raise _NotNow(f"{url}: {type(err).__name__}; is the agent running?") from err
        if reply.is_success:
            return
        self._give_up_on(reply.status_code, "/v1/signals")
        raise _NotNow(f"{url}: status {reply.status_code}", _retry_after(reply))

    def _give_up_on(self, status: int | None, path: str) -> None:
        if status is not None and status not in _RETRYABLE:
            raise PermanentDependencyError(f"{self._base}{path}: refused with status {status}")


async def _patiently(call: Callable[[], Awaitable[None]]) -> None:
    """Call until it succeeds, as long as the agent only asks for patience."""
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(_NotNow),
        stop=stop_after_delay(_PATIENCE_SECONDS),
        wait=_pause,
        reraise=True,
    ):
        with attempt:
            await call()


def _pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    told = error.retry_after_seconds if isinstance(error, _NotNow) else None
    return min(_LONGEST_WAIT_SECONDS, 0.2 * 2**state.attempt_number if told is None else told)


def _retry_after(reply: httpx.Response) -> float | None:
    told = reply.headers.get("retry-after", "")
    return float(told) if told.isdigit() else None
