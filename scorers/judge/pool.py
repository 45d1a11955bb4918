"""The endpoints together: which one is asked, when, at what price, and what is tried again.

Waiting for a turn at our own limits does not count for the deadline of a judgement; waiting for
an endpoint does. Where all endpoints are down for longer than it makes sense to wait in place, the
judgement is postponed.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence

from pydantic import SecretStr
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from collector.config import OpenAIConfig
from collector.errors import JudgeError, Postponed
from collector.telemetry import Metrics
from collector.timing import Clock, Deadline
from scorers.judge.budget import Budget, Charge
from scorers.judge.completions import CONGESTION, CallError, Reply, Task, read_reply
from scorers.judge.endpoint import Endpoint, Rejected
from scorers.judge.pricing import Meter, cost_usd
from scorers.judge.prompting import estimate_tokens

_BACKOFF = wait_random_exponential(multiplier=0.5, max=30)
_PATIENCE_SECONDS = 30.0
_TOKENS_PER_MESSAGE = 8


class Pool:
    """All endpoints of the judging model.

    Args:
        config: endpoints, limits and prices.
        keys: by environment variable, as `EndpointConfig.api_key_env` names them.
        budget: pays for the calls.
        metrics: where the state of endpoints is shown.
        clock: the time.
        most_at_once: calls under way at each endpoint at most.
        share: part of the limits a minute that is ours, now; others have the rest.
    """

    def __init__(
        self,
        config: OpenAIConfig,
        keys: Mapping[str, SecretStr],
        budget: Budget,
        metrics: Metrics | None,
        clock: Clock,
        most_at_once: int,
        share: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._config = config
        self._budget = budget
        self._metrics = metrics
        self._clock = clock
        self._endpoints = [
            Endpoint(
                one,
                keys.get(one.api_key_env or ""),
                config.prices.get(one.model or config.model),
                most_at_once,
                clock,
                share,
            )
            for one in config.served_by
        ]
        for endpoint in self._endpoints:
            self._show(endpoint)

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        for endpoint in self._endpoints:
            await endpoint.close()

    async def ask(self, task: Task, deadline: Deadline, meter: Meter) -> Reply:
        """Return the reply, after as many retries as it takes and the deadline allows.

        Raises:
            JudgeError: with its cause; nothing usable came back.
            Postponed: no endpoint can be asked, or no money is left.
        """
        blamed: set[Endpoint] = set()

        def worth_it(err: BaseException) -> bool:
            return isinstance(err, CallError) and (err.retry or (err.endpoint and elsewhere()))

        def elsewhere() -> bool:
            return not blamed.issuperset(self._ready())

        def no_more(state: RetryCallState) -> bool:
            too_late = state.upcoming_sleep >= deadline.remaining_seconds()
            return too_late or state.attempt_number > self._config.max_retries

        retrying = AsyncRetrying(
            retry=retry_if_exception(worth_it),
            wait=lambda state: 0.0 if elsewhere() else _BACKOFF(state),
            stop=no_more,
            reraise=True,
        )
        try:
            return await retrying(self._attempt, task, deadline, meter, blamed)
        except JudgeError as err:
            # What all calls fail with is no fault of this one.
            if all(endpoint.breaker.is_open for endpoint in self._endpoints):
                raise Postponed(err.cause, self._until_ready(), tried=True) from err
            raise

    async def finished(self, tasks: Sequence[Task]) -> None:
        """See `client.Asker.finished`: nothing is kept here."""

    async def _attempt(
        self, task: Task, deadline: Deadline, meter: Meter, blamed: set[Endpoint]
    ) -> Reply:
        while True:
            endpoint = await self._choose(deadline, blamed)
            began = self._clock.monotonic()
            async with (
                endpoint.at_once.slot() as began_in,
                self._budget.charge(_most_usd(endpoint, task)) as charge,
            ):
                await endpoint.tokens.take(_most_tokens(task))
                await endpoint.calls.take()
                deadline.extend(self._clock.monotonic() - began)
                if not endpoint.breaker.enter():  # it went down while we waited for our turn
                    charge.settle(0.0)
                    continue
                try:
                    return await self._call(endpoint, task, deadline, meter, charge, began_in)
                except Rejected:
                    meter.outcome("bad_request")
                except CallError as err:
                    if err.endpoint:
                        blamed.add(endpoint)
                    raise

    async def _choose(self, deadline: Deadline, blamed: set[Endpoint]) -> Endpoint:
        """Return an endpoint that may be asked now, by weight; wait for one a little.

        Those that have failed this call already are left out where there are others.
        """
        while True:
            if ready := self._ready():
                fresh = [endpoint for endpoint in ready if endpoint not in blamed] or ready
                weights = [endpoint.weight for endpoint in fresh]
                return random.choices(fresh, weights)[0] if any(weights) else fresh[0]  # noqa: S311
            nearest = min(self._endpoints, key=lambda endpoint: endpoint.breaker.wait_seconds())
            seconds = nearest.breaker.wait_seconds()
            if seconds > min(_PATIENCE_SECONDS, deadline.remaining_seconds()):
                raise Postponed(nearest.breaker.cause or "connection", seconds)
            await asyncio.sleep(seconds * random.uniform(1.0, 1.2))  # noqa: S311

    def _ready(self) -> list[Endpoint]:
        """Return those that may be asked now; the ones in reserve only where there is no other."""
        ready = [endpoint for endpoint in self._endpoints if endpoint.breaker.wait_seconds() <= 0]
        return [endpoint for endpoint in ready if endpoint.weight] or ready

    def _until_ready(self) -> float:
        return min(endpoint.breaker.wait_seconds() for endpoint in self._endpoints)

    async def _call(
        self,
        endpoint: Endpoint,
        task: Task,
        deadline: Deadline,
        meter: Meter,
        charge: Charge,
        began_in: int,
    ) -> Reply:
        seconds = min(self._config.timeout_seconds, deadline.remaining_seconds())
        if seconds <= 0:
            endpoint.breaker.left()
            charge.settle(0.0)
            raise JudgeError("timeout", "deadline_seconds have passed")
        meter.call()
        try:
            completion = await endpoint.send(task, seconds)
            usage = completion.usage
            charge.settle(meter.tokens(usage, endpoint.price))
            if usage is not None and usage.credible:
                used = usage.prompt_tokens + usage.completion_tokens
                endpoint.tokens.give_back(_most_tokens(task) - used)
            endpoint.breaker.succeeded()
            endpoint.at_once.succeeded()
            reply = read_reply(completion)
        except CallError as err:
            if not err.billed:
                charge.settle(0.0)
            if err.endpoint:
                endpoint.breaker.failed(err.cause, err.retry_after_seconds)
            else:
                endpoint.breaker.succeeded()
            if err.cause in CONGESTION:
                endpoint.at_once.rejected(began_in)
            meter.outcome(err.cause)
            raise
        except Rejected:
            charge.settle(0.0)
            endpoint.breaker.succeeded()
            raise
        except BaseException:
            endpoint.breaker.left()
            raise
        finally:
            self._show(endpoint)
        meter.outcome("truncated_reply" if reply.cut else "ok")
        return reply

    def _show(self, endpoint: Endpoint) -> None:
        if self._metrics is not None:
            self._metrics.endpoint_down.labels(endpoint.name).set(endpoint.breaker.is_open)
            self._metrics.endpoint_calls_capacity.labels(endpoint.name).set(endpoint.at_once.bound)


def _most_tokens(task: Task) -> int:
    """Return an upper estimate of what a call uses: our texts, and all output that is allowed."""
    texts: Sequence[str] = [str(message.get("content")) for message in task.messages]
    sent = sum(estimate_tokens(text) + _TOKENS_PER_MESSAGE for text in texts)
    return sent + estimate_tokens(json.dumps(task.schema)) + task.max_tokens


def _most_usd(endpoint: Endpoint, task: Task) -> float | None:
    if endpoint.price is None:
        return None
    sent = _most_tokens(task) - task.max_tokens
    return cost_usd(
        endpoint.price, input_tokens=sent, cached_tokens=0, output_tokens=task.max_tokens
    )
