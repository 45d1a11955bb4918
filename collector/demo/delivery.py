"""Sends the demo's spans and signals to the agent, and waits where the agent asks it to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_before_delay

from collector.demo.instrumentation import VERSION, tracer_provider
from collector.errors import DependencyError, PermanentDependencyError, TransientDependencyError

_SPANS_PER_EXPORT = 32
"""Small enough that traces are cut over two exports, as real exporters do."""

_RETRYABLE = frozenset({429, 502, 503, 504})
_TIMEOUT_SECONDS = 10.0
_PATIENCE_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 10.0


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
        version: service.version of the assistant.
    """

    def __init__(self, otlp_url: str, version: str = VERSION) -> None:
        self._base = otlp_url.rstrip("/").removesuffix("/v1/traces")
        self._ended = InMemorySpanExporter()
        self.provider = tracer_provider(self._ended, version)
        self._last_reply: requests.Response | None = None
        session = requests.Session()
        # The agent is named by its address; a proxy of the environment is not meant for it.
        session.trust_env = False
        session.hooks["response"].append(self._note)
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

    def _note(self, reply: requests.Response, *_: Any, **__: Any) -> None:
        """Keep the reply: the exporter itself only says whether it worked."""
        self._last_reply = reply

    async def _export(self, batch: Sequence[ReadableSpan]) -> None:
        self._last_reply = None
        result = await asyncio.to_thread(self._exporter.export, batch)
        if result is SpanExportResult.SUCCESS:
            return
        url = f"{self._base}/v1/traces"
        if self._last_reply is None:
            raise _NotNow(f"{url}: no answer; is the agent running?")
        raise _refusal(url, self._last_reply.status_code, self._last_reply.headers)

    async def _post(self, signals: list[dict[str, Any]]) -> None:
        url = f"{self._base}/v1/signals"
        try:
            reply = await self._http.post(url, json=signals)
        except httpx.TransportError as err:
            raise _NotNow(f"{url}: {type(err).__name__}; is the agent running?") from err
        if not reply.is_success:
            raise _refusal(url, reply.status_code, reply.headers)


def _refusal(url: str, status: int, headers: Mapping[str, str]) -> DependencyError:
    """Return what to raise for a reply that is not a success (OTLP/HTTP specification)."""
    if status not in _RETRYABLE:
        return PermanentDependencyError(f"{url}: refused with status {status}")
    told = headers.get("Retry-After", "")
    return _NotNow(f"{url}: status {status}", float(told) if told.isdigit() else None)


async def _patiently(call: Callable[[], Awaitable[None]]) -> None:
    """Call until it succeeds, as long as the agent only asks for patience."""
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(_NotNow),
        stop=stop_before_delay(_PATIENCE_SECONDS),
        wait=_pause,
        reraise=True,
    ):
        with attempt:
            await call()


def _pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    told = error.retry_after_seconds if isinstance(error, _NotNow) else None
    return min(_LONGEST_PAUSE_SECONDS, 0.2 * 2**state.attempt_number) if told is None else told
