"""Calls by the Batch API: half the price, within a day.

Nothing waits in memory. A call is noted durably under a hash of its content, and the judgement is
postponed; when its task comes up again, the answer is there or it is not. So a restart, or a crash
at any moment, pays nothing twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import uuid4

import msgspec
from pydantic import SecretStr

from collector.config import OpenAIConfig, PriceConfig
from collector.errors import DependencyError, JudgeError, Postponed, TransientDependencyError
from collector.ports import BatchAnswer, BatchCalls
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Deadline
from scorers.judge.batch_api import BatchApi
from scorers.judge.budget import Budget
from scorers.judge.completions import CallError, Reply, Task, read_completion, read_reply
from scorers.judge.endpoint import Endpoint, named_error
from scorers.judge.pricing import Meter, cost_usd
from scorers.judge.prompting import estimate_tokens

_MOST_CALLS = 5_000
_KEPT = timedelta(minutes=15)
"""How long answers are kept after their judgement: until it is stored, with time to spare."""


class _Error(msgspec.Struct, frozen=True):
    code: str | None = None
    message: str | None = None


class _ErrorBody(msgspec.Struct, frozen=True):
    error: _Error = _Error()


class BatchPool:
    """Asks one endpoint by batches.

    Args:
        endpoint: whose body of a call is used.
        api: its Batch API.
        calls: the durable record.
        budget: pays for batches.
        metrics: where calls, tokens and cost are counted.
        clock: the time.
        gather_seconds: how long calls are gathered for one batch.
        poll_seconds: how often batches are looked at.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        api: BatchApi,
        calls: BatchCalls,
        budget: Budget,
        metrics: Metrics | None,
        clock: Clock,
        *,
        gather_seconds: float = 60.0,
        poll_seconds: float = 60.0,
    ) -> None:
        self._endpoint = endpoint
        self._price = _halved(endpoint.price)
        self._api = api
        self._calls = calls
        self._budget = budget
        self._metrics = metrics
        self._waits_for = "timeout"
        self._clock = clock
        self._gather = timedelta(seconds=gather_seconds)
        self._poll_seconds = poll_seconds
        self._warn = RateLimitedLog()
        self._loop: asyncio.Task[None] | None = None

    async def ask(self, task: Task, deadline: Deadline, meter: Meter) -> Reply:
        """Return the reply if it is there.

        Raises:
            JudgeError: with its cause; nothing usable came back.
            Postponed: it is not there yet.
        """
        self._loop = self._loop or asyncio.create_task(self._work())
        body = self._body(task)
        answer = await self._calls.answer(_key(body))
        if answer is not None:
            meter.call()
            try:
                return self._read(answer, meter)
            except CallError as err:
                if not err.retry:
                    raise
        again = answer is not None
        await self._calls.add(_key(body), body, self._clock.now(), again=again)
        raise Postponed(self._waits_for, self._poll_seconds)

    async def finished(self, tasks: Sequence[Task]) -> None:
        """See `client.Asker.finished`."""
        await self._calls.finished([_key(self._body(task)) for task in tasks], self._clock.now())

    async def close(self) -> None:
        """Stop looking at batches; what is under way is found again. May be called twice."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None
        await self._endpoint.close()

    def _body(self, task: Task) -> bytes:
        return msgspec.json.encode(self._endpoint.parameters(task))

    def _read(self, answer: BatchAnswer, meter: Meter) -> Reply:
        if answer.status == 200:
            completion = read_completion(answer.body)
            meter.tokens(completion.usage, self._price)
            return read_reply(completion)
        if answer.status == 0:
            raise CallError("timeout", "the batch ended without an answer", retry=True)
        try:
            error = msgspec.json.decode(answer.body, type=_ErrorBody).error
        except msgspec.DecodeError:
            error = _Error()
        raise named_error(answer.status, error.code or "", error.message or "")

    async def _work(self) -> None:
        while True:
            try:
                await self._collect()
                await self._send()
                await self._calls.forget(self._clock.now() - _KEPT)
            except DependencyError as err:
                self._warn.warning("batches_wait", error=str(err))
            await asyncio.sleep(self._poll_seconds)

    async def _collect(self) -> None:
        """Take over the answers of batches that have ended."""
        for name, batch_id, reservation in await self._calls.batches():
            if batch_id is None:  # we died, or lost the connection, while it was sent
                batch_id = await self._api.find(name)
                if batch_id is None:
                    await self._calls.not_sent(name)
                    continue
                await self._calls.sent(name, batch_id, None)
            state = await self._api.state(batch_id)
            if not state.ended:
                continue
            answers: dict[str, BatchAnswer] = {}
            for file in state.files:
                answers |= await self._api.answers(file)
            await self._budget.settle(reservation, sum(map(self._cost_usd, answers.values())))
            await self._calls.ended(name, answers)

    async def _send(self) -> None:
        """Send what has been gathered, as far as the budget goes."""
        calls = await self._calls.take(self._clock.now() - self._gather, _MOST_CALLS)
        while calls:
            most_usd = sum(self._most_usd(body) for _, body in calls)
            reservation = await self._budget.reserve(most_usd)
            if reservation is not None:
                break
            self._waits_for = "budget_exhausted"
            calls = calls[: len(calls) // 2]
        else:
            return
        self._waits_for = "timeout"
        name = uuid4().hex
        await self._calls.sending(name, [key for key, _ in calls])
        try:
            batch_id = await self._api.create(name, calls)
        except TransientDependencyError:
            await self._budget.settle(reservation, 0.0)
            raise
        await self._calls.sent(name, batch_id, reservation)

    def _cost_usd(self, answer: BatchAnswer) -> float:
        meter = Meter(self._metrics)
        outcome = "ok"
        try:
            self._read(answer, meter)
        except JudgeError as err:
            outcome = err.cause
        meter.outcome(outcome)
        return meter.usage.cost_usd or 0.0

    def _most_usd(self, body: bytes) -> float:
        if self._price is None:
            return 0.0
        bounds = msgspec.json.decode(body, type=_Bounds)
        return cost_usd(
            self._price,
            input_tokens=estimate_tokens(body.decode()),
            cached_tokens=0,
            output_tokens=bounds.max_completion_tokens,
        )


def batch_pool(
    config: OpenAIConfig,
    keys: Mapping[str, SecretStr],
    calls: BatchCalls,
    budget: Budget,
    metrics: Metrics | None,
    clock: Clock,
    **seconds: float,
) -> BatchPool:
    """Return what asks by batches; `seconds` are those of `BatchPool`."""
    (one,) = config.served_by
    price = config.prices.get(one.model or config.model)
    endpoint = Endpoint(one, keys.get(one.api_key_env or ""), price, 1, clock)
    api = BatchApi(endpoint.client)
    return BatchPool(endpoint, api, calls, budget, metrics, clock, **seconds)


class _Bounds(msgspec.Struct, frozen=True):
    max_completion_tokens: int = 0


def _key(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:40]


def _halved(price: PriceConfig | None) -> PriceConfig | None:
    """Batches cost half of what single calls do."""
    if price is None:
        return None
    return PriceConfig(
        **{key: None if usd is None else usd / 2 for key, usd in price.model_dump().items()}
    )
