"""Where answers come from: an assistant over HTTP, a file of recorded ones, stored traces."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol

import httpx
import jmespath
import msgspec
from jmespath.exceptions import JMESPathError
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from collector.config import ResponseConfig, TargetConfig
from collector.errors import PermanentDependencyError, TransientDependencyError, UsageError
from collector.evaluation.answers import Answer, ResponseReader, Unreadable
from collector.model import RagRequest
from sinks.golden_file import GoldenRow

_TRY_AGAIN = frozenset({429, 502, 503, 504})
_NO_LOGIN = 401
_LONGEST_WAIT_SECONDS = 300.0
_BACKOFF = wait_random_exponential(multiplier=0.5, max=30)

NOT_RECORDED = "not_recorded"
"""Cause of a question that a file or the traces hold no answer to."""


class Target(Protocol):
    """Answers golden questions, one at a time or several at once."""

    async def ask(self, row: GoldenRow) -> Answer:
        """Return the answer; `error` says why there is none.

        Raises:
            TransientDependencyError: nobody answers at all; asking on is no use now.
            PermanentDependencyError: it wants a login.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Recorded:
    """Answers that are there already, by the id of their question."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self._answers = answers
        self.ids = answers.keys()

    async def ask(self, row: GoldenRow) -> Answer:
        """See `Target.ask`."""
        return self._answers.get(row.id) or Answer(question_id=row.id, error=NOT_RECORDED)

    async def close(self) -> None:
        """Nothing to release."""


def results_file(path: Path, response: ResponseConfig) -> Recorded:
    """Read recorded answers: JSON lines, each with `id` and what the assistant responded.

    Raises:
        UsageError: with every line that cannot be used, or the file cannot be read.
    """
    try:
        # Not `splitlines`: it also breaks at signs that may stand within JSON texts.
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError([f"{path}: cannot be read as UTF-8 text"]) from err
    reader = ResponseReader(response)
    answers: dict[str, Answer] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            answer = _recorded(json.loads(line), reader)
        except Unreadable as err:
            problems.append(f"{path}:{number}: {err}")
            continue
        except (ValueError, RecursionError):
            problems.append(f"{path}:{number}: is not JSON; give one object a line")
            continue
        if answer.question_id in answers:
            problems.append(f"{path}:{number}: id: this question has an answer already")
        answers[answer.question_id] = answer
    if problems or not answers:
        raise UsageError(problems or [f"{path}: holds no answer"])
    return Recorded(answers)


def _recorded(body: Any, reader: ResponseReader) -> Answer:
    if not isinstance(body, dict) or not isinstance(body.get("id"), str | int):
        raise Unreadable("must be an object with the id of the golden row that was asked")
    return reader.read(str(body["id"]), body)


def traced(question_id: str, request: RagRequest) -> Answer:
    """Return the answer that a traced request holds."""
    return Answer(
        question_id=question_id,
        answer=request.answer,
        documents=request.documents,
        model=request.model,
        trace_id=request.trace_id,
        latency_ms=request.latency_ms,
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        cost_usd=request.cost_usd,
        error="assistant_error" if request.status == "error" else None,
    )


# --- Over HTTP ----------------------------------------------------------------------------


class _TryAgain(Exception):
    """Not now: busy, or the connection broke."""

    def __init__(self, cause: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(cause)
        self.cause = cause
        self.retry_after_seconds = retry_after_seconds


class _Unreachable(_TryAgain):
    """No connection at all."""


class HttpTarget:
    """An assistant behind an HTTP endpoint that takes and returns JSON.

    Args:
        url: where questions are posted.
        config: how they are put and how answers are read.
        token: sent as a bearer token; None sends none.
    """

    def __init__(self, url: str, config: TargetConfig, token: str | None = None) -> None:
        self._url = url
        self._body = jmespath.compile(config.request)
        self._reader = ResponseReader(config.response)
        self._pace = _Pace(config.requests_per_second)
        login = {"authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.AsyncClient(
            timeout=config.timeout_seconds,
            headers=config.headers | login,
            limits=httpx.Limits(max_connections=config.concurrency),
            trust_env=False,
        )
        self._retrying = AsyncRetrying(
            retry=retry_if_exception_type(_TryAgain),
            wait=_wait_seconds,
            stop=stop_after_attempt(config.max_retries + 1),
            reraise=True,
        )

    async def ask(self, row: GoldenRow) -> Answer:
        """See `Target.ask`."""
        try:
            body = self._body.search(as_data(row))
            return await self._retrying(self._ask_once, row.id, body)
        except _Unreachable as err:
            raise TransientDependencyError(
                f"no assistant answers at {self._url}; is it running, and is that its address?"
            ) from err
        except _TryAgain as err:
            return Answer(question_id=row.id, error=err.cause)
        except Unreadable as err:
            return Answer(question_id=row.id, error=str(err))
        except JMESPathError as err:
            cause = f"evaluation.target.request: {type(err).__name__}"
            return Answer(question_id=row.id, error=cause)

    async def _ask_once(self, question_id: str, body: Any) -> Answer:
        await self._pace.wait()
        started = time.monotonic()
        try:
            response = await self._client.post(self._url, json=body)
        except httpx.ConnectError as err:
            raise _Unreachable("unreachable") from err
        except httpx.TimeoutException:
            return Answer(question_id=question_id, error="timeout")
        except httpx.TransportError as err:
            raise _TryAgain("connection_lost") from err
        except httpx.DecodingError as err:
            raise Unreadable("the response is compressed in a way it does not say") from err
        elapsed_ms = (time.monotonic() - started) * 1000
        if response.status_code in _TRY_AGAIN:
            raise _TryAgain(f"HTTP {response.status_code}", _retry_after_seconds(response))
        if response.status_code == _NO_LOGIN:
            raise PermanentDependencyError(
                f"{self._url} wants a login (HTTP 401): name the variable with its token in "
                "evaluation.target.token_env"
            )
        if response.has_redirect_location:
            raise Unreadable(f"HTTP {response.status_code}: redirects; ask its final address")
        if not response.is_success:
            return Answer(question_id=question_id, error=f"HTTP {response.status_code}")
        try:
            answer = self._reader.read(question_id, response.json())
        except (ValueError, RecursionError) as err:
            raise Unreadable("the response is no JSON") from err
        if answer.latency_ms is None:
            answer = msgspec.structs.replace(answer, latency_ms=elapsed_ms)
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class _Pace:
    """Spaces the starts of calls evenly; without a limit it never waits."""

    def __init__(self, per_second: float | None) -> None:
        self._gap = 1.0 / per_second if per_second else 0.0
        self._next = 0.0

    async def wait(self) -> None:
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + self._gap
        if start > now:
            await asyncio.sleep(start - now)


def as_data(row: GoldenRow) -> dict[str, Any]:
    """Return a golden row as JSON data, the keys of its own beside ours."""
    data: dict[str, Any] = msgspec.to_builtins(row)
    extra: dict[str, Any] = data.pop("extra")
    return extra | data


def _wait_seconds(state: RetryCallState) -> float:
    """At least what the server asked for, plus jitter that grows with every attempt."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_seconds if isinstance(error, _TryAgain) else 0.0
    return min(asked, _LONGEST_WAIT_SECONDS) + _BACKOFF(state)


def _retry_after_seconds(response: httpx.Response) -> float:
    """Read Retry-After: seconds, or an HTTP date (RFC 9110, 10.2.3)."""
    value = response.headers.get("retry-after", "")
    if value.isdecimal():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    return max(0.0, (at.astimezone(UTC) - datetime.now(UTC)).total_seconds())
