"""The `openai` engine: a language model judges, by one of the methods of `methods`.

Two kinds of calls, not one. The first sees question and answer only, so what counts as a claim
does not depend on what the documents happen to say, every later call judges the same numbered
claims, and a reply with a claim too few or too many is noticed. The second sees the documents,
which are most of the cost and are sent once either way; the price of the split is one short call.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from collector.config import OpenAIConfig
from collector.errors import JudgeError
from collector.model import Judgement, JudgementStatus, RagRequest
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Deadline, SystemClock
from scorers.aspects import Scored
from scorers.judge import prompting
from scorers.judge.budget import Budget
from scorers.judge.conversation import Asker, Conversation
from scorers.judge.methods import FAITHFULNESS, Method
from scorers.judge.pool import Pool
from scorers.judge.pricing import Meter


class OpenAIJudge:
    """`collector.ports.Judge` on any endpoints that speak the OpenAI API.

    Any number of judgements may run at once.

    Args:
        config: the endpoints, their limits and prices.
        keys: keys of endpoints by environment variable; one that is absent is not sent.
        metrics: where calls, tokens and cost are counted.
        clock: the time.
        budget: pays for the calls; by default nothing is counted.
        most_at_once: calls under way at each endpoint at most.
        asker: asks the model in place of calls by our own limits and budget.
        method: what is judged.
    """

    def __init__(
        self,
        config: OpenAIConfig,
        keys: Mapping[str, SecretStr] | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        budget: Budget | None = None,
        most_at_once: int = 4,
        asker: Asker | None = None,
        method: Method = FAITHFULNESS,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._clock = clock or SystemClock()
        self._log = RateLimitedLog()
        self._prompts = prompting.load_prompts()
        budget = budget or Budget(None, None, metrics, self._clock)
        self._pool = asker or Pool(config, keys or {}, budget, metrics, self._clock, most_at_once)
        self._method = method
        used = [getattr(self._prompts, name) for name in (*method.prompts, "repair")]
        sha = prompting.digest(used, *method.schemas)
        named = "" if method is FAITHFULNESS else f"{method.scorer}/"
        self._fingerprint = f"openai/{config.model}/{named}{sha}/{method.version}"

    @property
    def fingerprint(self) -> str:
        """`openai/<model>/<sha of prompts and schemas>/<version>`, other scorers by name."""
        return self._fingerprint

    async def judge(self, request: RagRequest) -> Judgement:
        """Return the judgement; a failure is a status with its cause, never a number.

        Raises:
            Postponed: no endpoint can be asked now, or today's budget is used up.
        """
        started = self._clock.monotonic()
        meter = Meter(self._metrics)
        conversation = Conversation(
            self._config,
            self._prompts,
            self._pool,
            meter,
            Deadline(self._config.deadline_seconds, self._clock),
        )
        status: JudgementStatus = "unscored"
        found = Scored(None, [], self._method.unscored(request))
        if found.reason is None:
            try:
                found = await self._method.judge(conversation, request)
                status = "judged" if found.reason is None else "unscored"
            except JudgeError as err:
                status, found = "failed", Scored(None, [], err.cause)
                self._log.warning("judgement_failed", cause=err.cause, detail=err.detail)
            await self._pool.finished(conversation.tasks)
        return Judgement(
            trace_id=request.trace_id,
            scorer=self._method.scorer,
            fingerprint=self._fingerprint,
            status=status,
            score=found.score,
            reason=found.reason,
            claims=found.claims,
            engine="openai-batch" if self._config.batch else "openai",
            model=self._config.model,
            usage=meter.usage,
            raw_reply="\n".join(conversation.replies) or None,
            judged_at=self._clock.now(),
            duration_ms=(self._clock.monotonic() - started) * 1000,
        )

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        await self._pool.close()
