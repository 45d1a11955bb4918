"""One OpenAI-compatible endpoint: what it is sent, and every way it can fail by its cause.

The only module that knows the openai client. The client retries nothing: `pool` does, since a
retry may go elsewhere, is paid from the budget and counts for the limits.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

import msgspec
import openai
from pydantic import SecretStr

from collector.config import EndpointConfig, PriceConfig
from collector.timing import Clock
from scorers.judge.completions import CallError, Completion, Task, read_completion
from scorers.judge.limits import AdaptiveLimit, Breaker, Pace

_CODE = re.compile(r"[a-z0-9_.-]{1,40}")
_CONTEXT_HINTS = ("context_length", "context length", "context window", "prompt is too long")
_NO_SUCH_PLACE = (404, 405, 410)


class Rejected(Exception):
    """The call used something that the endpoint does not know; it is left out from now on."""


class Endpoint:
    """An OpenAI-compatible endpoint, with its limits and its state.

    It learns what the endpoint cannot do. One that rejects JSON schemas is asked in plain JSON
    mode from then on, one that wants the default temperature gets no temperature, and one that
    does not know `max_completion_tokens` gets `max_tokens`.

    Args:
        config: address, model and limits, complete.
        api_key: sent as a bearer token; None sends none.
        price: what its model costs, None where unknown.
        most_at_once: calls under way at most.
        clock: the time.
        share: part of the limits a minute that is ours, now.
    """

    def __init__(
        self,
        config: EndpointConfig,
        api_key: SecretStr | None,
        price: PriceConfig | None,
        most_at_once: int,
        clock: Clock,
        share: Callable[[], float] = lambda: 1.0,
    ) -> None:
        # Its debug log holds whole requests, and OPENAI_LOG in the environment turns it on.
        logging.getLogger("openai").setLevel(logging.WARNING)
        place = urlsplit(config.base_url)
        self.name = place.netloc.rpartition("@")[2] + place.path.rstrip("/")
        self.weight = config.weight
        self.price = price
        self.at_once = AdaptiveLimit(most_at_once)
        self.calls = Pace(config.requests_per_minute, clock, share)
        self.tokens = Pace(config.tokens_per_minute, clock, share)
        self.breaker = Breaker(clock)
        self._model = config.model
        self._clock = clock
        self._rejected: set[str] = set()
        # Without a key, the one that the client finds in the environment must not be sent either.
        self._headers = None if api_key else {"Authorization": openai.omit}
        self.client = openai.AsyncOpenAI(
            base_url=config.base_url,
            api_key=api_key.get_secret_value() if api_key else "none",
            max_retries=0,
        )

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        await self.client.close()

    async def send(self, task: Task, timeout_seconds: float) -> Completion:
        """Send one call, once.

        Raises:
            CallError: with its cause.
            Rejected: nothing was done; send it again.
        """
        parameters = self.parameters(task)
        options: openai.RequestOptions = {"timeout": timeout_seconds}
        if self._headers is not None:
            options["headers"] = self._headers
        try:
            async with asyncio.timeout(timeout_seconds):
                # Not chat.completions.create(): walking through the body again to check its
                # types takes as long as all the rest of the client does before it sends.
                answer = await self.client.post(
                    "/chat/completions",
                    content=msgspec.json.encode(parameters),
                    cast_to=bytes,
                    options=options,
                )
        except (TimeoutError, openai.APITimeoutError) as err:
            detail = f"no reply within {timeout_seconds:.1f} s"
            raise CallError("timeout", detail, endpoint=True, retry=True, billed=True) from err
        except openai.APIConnectionError as err:
            detail = type(err.__cause__).__name__
            billed = detail != "ConnectError"
            raise CallError("connection", detail, endpoint=True, retry=True, billed=billed) from err
        except openai.APIStatusError as err:
            if self._learn(err, parameters):
                raise Rejected from err
            raise self._error(err) from err
        return read_completion(answer)

    def parameters(self, task: Task) -> dict[str, Any]:
        """Return the body of a call."""
        parameters: dict[str, Any] = {
            "model": self._model,
            "messages": task.messages,
            "response_format": {"type": "json_object"},
        }
        if "json_schema" not in self._rejected:
            schema = {"name": task.name, "strict": True, "schema": task.schema}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        if "temperature" not in self._rejected:
            parameters["temperature"] = 0
        bound = "max_completion_tokens"
        parameters["max_tokens" if bound in self._rejected else bound] = task.max_tokens
        return parameters

    def _learn(self, err: openai.APIStatusError, parameters: Mapping[str, Any]) -> bool:
        """Say whether the call was rejected for something that it can do without."""
        if err.status_code not in (400, 422):
            return False
        about = (err.param or str(err.message)).lower()
        used = {
            "json_schema": parameters["response_format"]["type"] == "json_schema"
            and ("json_schema" in about or "response_format" in about),
            "temperature": "temperature" in parameters and "temperature" in about,
            "max_completion_tokens": "max_completion_tokens" in parameters
            and "max_completion_tokens" in about
            and "too large" not in str(err.message),
        }
        culprits = {name for name, rejected in used.items() if rejected}
        self._rejected |= culprits
        return bool(culprits)

    def _error(self, err: openai.APIStatusError) -> CallError:
        later = self._retry_after_seconds(err.response.headers)
        return named_error(err.status_code, str(err.code or ""), str(err.message), later)

    def _retry_after_seconds(self, headers: Mapping[str, str]) -> float:
        """Read retry-after-ms, or else Retry-After: seconds or an HTTP date (RFC 9110, 10.2.3)."""
        for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
            try:
                seconds = float(headers.get(name, "")) / unit
            except ValueError:
                continue
            return max(0.0, seconds) if isfinite(seconds) else 0.0
        try:
            at = parsedate_to_datetime(headers.get("retry-after", ""))
        except ValueError:
            return 0.0
        if at.tzinfo is None:  # "-0000": a UTC time that says nothing of the sender's zone
            at = at.replace(tzinfo=UTC)
        return max(0.0, (at - self._clock.now()).total_seconds())


def named_error(
    status: int, code: str, message: str, retry_after_seconds: float = 0.0
) -> CallError:
    """Name the cause of an answer that is an error.

    The detail holds status and code only, and of the code only what looks like one: messages may
    quote the data.

    Args:
        status: HTTP status.
        code: the endpoint's own code, "" where it gives none.
        message: its message.
        retry_after_seconds: not before that, if it said so.
    """
    detail = f"HTTP {status} {code if _CODE.fullmatch(code) else ''}".strip()
    later = retry_after_seconds
    if status == 429:
        again = code != "insufficient_quota"
        return CallError(
            "rate_limited", detail, endpoint=True, retry=again, retry_after_seconds=later
        )
    if status >= 500 or status == 408:
        cause = "timeout" if status == 408 else "server_error"
        return CallError(cause, detail, endpoint=True, retry=True, retry_after_seconds=later)
    if status in (401, 403):
        return CallError("auth", detail, endpoint=True)
    if status in (400, 413, 422):
        if code == "content_filter":
            return CallError("content_filter", detail)
        hints = f"{code} {message}".lower()
        if status == 413 or any(hint in hints for hint in _CONTEXT_HINTS):
            return CallError("context_too_long", detail)
    return CallError("bad_request", detail, endpoint=status in _NO_SUCH_PLACE)
