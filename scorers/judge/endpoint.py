"""One call to an OpenAI-compatible endpoint: retries, errors by cause, what it cost.

The only module that knows the openai client.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import msgspec
import openai
from openai.types.chat import ChatCompletionMessageParam
from pydantic import SecretStr
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    wait_random_exponential,
)

from collector.config import OpenAIConfig, PriceConfig
from collector.errors import JudgeError
from collector.model import Usage
from collector.telemetry import Metrics
from collector.timing import Clock, Deadline
from scorers.judge.pricing import cost_usd

Messages = list[ChatCompletionMessageParam]

_BACKOFF = wait_random_exponential(multiplier=0.5, max=30)
_CODE = re.compile(r"[a-z0-9_.-]{1,40}")
_CONTEXT_HINTS = ("context_length", "context length", "context window", "prompt is too long")


class Task(NamedTuple):
    """What is asked: the messages, the JSON schema of the reply and its name, the output bound."""

    messages: Messages
    name: str
    schema: dict[str, Any]
    max_tokens: int


class Reply(NamedTuple):
    """The text of a reply, "" where there was none; `cut` if the output bound ended it."""

    text: str
    cut: bool


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message = _Message()
    finish_reason: str | None = None


class _CachedTokens(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class _TokenCounts(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _CachedTokens | None = None


class _Completion(msgspec.Struct, frozen=True):
    """What we need of a chat completion. The client's own model checks no types."""

    choices: list[_Choice] | None = None
    usage: _TokenCounts | None = None


class Meter:
    """Adds up what one judgement consumes, over all its calls."""

    def __init__(self, price: PriceConfig | None, metrics: Metrics | None) -> None:
        self._price = price
        self._metrics = metrics
        self._unknown_cost = price is None
        self.usage = Usage()

    def call(self) -> None:
        """Count a call that is being sent."""
        self.usage = msgspec.structs.replace(self.usage, calls=self.usage.calls + 1)

    def outcome(self, outcome: str) -> None:
        """Count how a call ended: `ok` or a cause of `collector.model.FAILURE_CAUSES`."""
        if self._metrics is not None:
            self._metrics.judge_calls.labels(outcome).inc()

    def tokens(self, used: _TokenCounts | None) -> None:
        """Add the tokens of a reply; an endpoint that counts none makes the cost unknown."""
        if used is None:
            self._unknown_cost = True
            used = _TokenCounts()
        sent, received = used.prompt_tokens, used.completion_tokens
        details = used.prompt_tokens_details
        cached = min((details.cached_tokens if details else None) or 0, sent)
        cost = None
        if self._price is not None and not self._unknown_cost:
            cost = cost_usd(
                self._price, input_tokens=sent, cached_tokens=cached, output_tokens=received
            )
        self.usage = Usage(
            input_tokens=self.usage.input_tokens + sent,
            output_tokens=self.usage.output_tokens + received,
            cached_tokens=self.usage.cached_tokens + cached,
            cost_usd=None if cost is None else (self.usage.cost_usd or 0.0) + cost,
            calls=self.usage.calls,
        )
        if self._metrics is not None:
            for kind, count in (("input", sent), ("cached", cached), ("output", received)):
                self._metrics.judge_tokens.labels(kind).inc(count)
            self._metrics.judge_cost.inc(cost or 0.0)


class _Retryable(JudgeError):
    """The same call may succeed later; not before `retry_after_seconds` if the server said so."""

    def __init__(self, cause: str, detail: str = "", retry_after_seconds: float = 0.0) -> None:
        super().__init__(cause, detail)
        self.retry_after_seconds = retry_after_seconds


class Endpoint:
    """An OpenAI-compatible endpoint.

    It learns what the endpoint cannot do. One that rejects JSON schemas is asked in plain JSON
    mode from then on, one that wants the default temperature gets no temperature, and one that
    does not know `max_completion_tokens` gets `max_tokens`.
    """

    def __init__(self, config: OpenAIConfig, api_key: SecretStr | None, clock: Clock) -> None:
        # Its debug log holds whole requests, and OPENAI_LOG in the environment turns it on.
        logging.getLogger("openai").setLevel(logging.WARNING)
        self._config = config
        self._clock = clock
        self._rejected: set[str] = set()
        # Without a key, the one that the client finds in the environment must not be sent either.
        self._headers = None if api_key else {"Authorization": openai.omit}
        self._client = openai.AsyncOpenAI(
            base_url=config.base_url,
            api_key=api_key.get_secret_value() if api_key else "none",
            timeout=config.timeout_seconds,
            max_retries=0,
        )

    async def ask(self, task: Task, deadline: Deadline, meter: Meter) -> Reply:
        """Return the reply, after as many retries as it takes and the deadline allows.

        Raises:
            JudgeError: with its cause; nothing usable came back.
        """

        def no_more(state: RetryCallState) -> bool:
            too_late = state.upcoming_sleep >= deadline.remaining_seconds()
            return too_late or state.attempt_number > self._config.max_retries

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Retryable),
            wait=_wait_seconds,
            stop=no_more,
            reraise=True,
        )
        return await retrying(self._attempt, task, deadline, meter)

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        await self._client.close()

    async def _attempt(self, task: Task, deadline: Deadline, meter: Meter) -> Reply:
        try:
            completion = await self._send(task, deadline, meter)
            reply = _read(completion)
        except JudgeError as err:
            meter.outcome(err.cause)
            raise
        meter.outcome("truncated_reply" if reply.cut else "ok")
        return reply

    async def _send(self, task: Task, deadline: Deadline, meter: Meter) -> _Completion:
        parameters = self._parameters(task)
        seconds = min(self._config.timeout_seconds, deadline.remaining_seconds())
        if seconds <= 0:
            raise JudgeError("timeout", "deadline_seconds have passed")
        meter.call()
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.chat.completions.with_raw_response.create(
                    **parameters, extra_headers=self._headers
                )
        except (TimeoutError, openai.APITimeoutError) as err:
            raise _Retryable("timeout", f"no reply within {seconds:.1f} s") from err
        except openai.APIConnectionError as err:
            raise _Retryable("connection", type(err.__cause__).__name__) from err
        except openai.APIStatusError as err:
            if not self._learn(err, parameters):
                raise self._error(err) from err
            meter.outcome("bad_request")
            return await self._send(task, deadline, meter)
        try:
            completion = msgspec.json.decode(response.content, type=_Completion, strict=False)
        except (msgspec.DecodeError, UnicodeError) as err:
            raise JudgeError("unparseable", "the body is not a chat completion") from err
        meter.tokens(completion.usage)
        return completion

    def _parameters(self, task: Task) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "model": self._config.model,
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

    def _error(self, err: openai.APIStatusError) -> JudgeError:
        """Name the cause. The detail holds status and code only: messages may quote the data."""
        status, code = err.status_code, str(err.code or "")[:60]
        # Only what looks like a code: an odd endpoint may put a text of users there.
        detail = f"HTTP {status} {code if _CODE.fullmatch(code) else ''}".strip()
        if status == 429 and code != "insufficient_quota":
            return _Retryable("rate_limited", detail, self._retry_after_seconds(err))
        if status >= 500:
            return _Retryable("server_error", detail, self._retry_after_seconds(err))
        if status == 408:
            return _Retryable("timeout", detail)
        if status in (400, 413, 422):
            message = f"{code} {err.message}".lower()
            if code == "content_filter":
                return JudgeError("content_filter", detail)
            if status == 413 or any(hint in message for hint in _CONTEXT_HINTS):
                return JudgeError("context_too_long", detail)
        cause = {401: "auth", 403: "auth", 429: "rate_limited"}.get(status, "bad_request")
        return JudgeError(cause, detail)

    def _retry_after_seconds(self, err: openai.APIStatusError) -> float:
        """Read Retry-After: seconds, or an HTTP date (RFC 9110, 10.2.3)."""
        value = err.response.headers.get("retry-after", "")
        try:
            return max(0.0, float(value))
        except ValueError:
            pass
        try:
            at = parsedate_to_datetime(value)
        except ValueError:
            return 0.0
        if at.tzinfo is None:  # "-0000": a UTC time that says nothing of the sender's zone
            at = at.replace(tzinfo=UTC)
        return max(0.0, (at - self._clock.now()).total_seconds())


def _wait_seconds(state: RetryCallState) -> float:
    """At least what the server asked for, plus jitter that grows with every attempt."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_seconds if isinstance(error, _Retryable) else 0.0
    return asked + _BACKOFF(state)


def _read(completion: _Completion) -> Reply:
    choice = completion.choices[0] if completion.choices else None
    if choice is None:
        return Reply("", cut=False)
    if choice.finish_reason == "content_filter":
        raise JudgeError("content_filter")
    if choice.message.refusal:
        raise JudgeError("refused")
    return Reply(choice.message.content or "", cut=choice.finish_reason == "length")
