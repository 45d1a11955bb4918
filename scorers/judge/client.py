"""The `openai` engine: a language model lists the claims of an answer and checks each of them.

Two kinds of calls, not one. The first sees question and answer only, so what counts as a claim
does not depend on what the documents happen to say, every later call judges the same numbered
claims, and a reply with a claim too few or too many is noticed. The second sees the documents,
which are most of the cost and are sent once either way; the price of the split is one short call.

A context that is too long for one call, by our count or the endpoint's, is spread over several,
whole documents together where possible. Later calls get only the claims that are not supported
yet. A claim that needs two documents of different calls is not found: the one known weakness of
the split.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import SecretStr

from collector.config import OpenAIConfig
from collector.errors import JudgeError
from collector.model import Claim, Document, Judgement, JudgementStatus, RagRequest
from collector.telemetry import Metrics, RateLimitedLog
from collector.timing import Clock, Deadline, SystemClock
from scorers import faithfulness
from scorers.judge import prompting, replies
from scorers.judge.budget import Budget
from scorers.judge.completions import Messages, Reply, Task
from scorers.judge.pool import Pool
from scorers.judge.pricing import Meter
from scorers.lexical_claims import split_claims
from scorers.lexical_text import language
from scorers.refusal import is_refusal

SCORER_VERSION = "2"

_T = TypeVar("_T")
_CLAIMS_PER_CALL = 40
_TOKENS_PER_VERDICT = 160
_SPARE_TOKENS = 256
_MAX_OUTPUT_TOKENS = 16_000
_GROWTH = 4
_MIN_DOCUMENT_TOKENS = 100
_NOTHING_LISTED = (
    "the list is empty although the answer seems to state something; if it really claims nothing, "
    "send the empty list again"
)
_RANKING = ("SUPPORTED", "CONTRADICTED", "NOT_FOUND")


class Asker(Protocol):
    """Asks the model: `pool.Pool` call by call, `batch.BatchPool` by batches."""

    async def ask(self, task: Task, deadline: Deadline, meter: Meter) -> Reply:
        """Return the reply.

        Raises:
            JudgeError: with its cause; nothing usable came back.
            Postponed: nobody can be asked now, or the reply is not there yet.
        """
        ...

    async def finished(self, tasks: Sequence[Task]) -> None:
        """Forget the replies to these tasks: the judgement that needed them is done."""
        ...

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        ...


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
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._clock = clock or SystemClock()
        self._log = RateLimitedLog()
        self._prompts = prompting.load_prompts()
        budget = budget or Budget(None, None, metrics, self._clock)
        self._pool = asker or Pool(config, keys or {}, budget, metrics, self._clock, most_at_once)
        sha = prompting.digest(self._prompts, replies.CLAIMS_SCHEMA, replies.VERDICTS_SCHEMA)
        self._fingerprint = f"openai/{config.model}/{sha}/{SCORER_VERSION}"

    @property
    def fingerprint(self) -> str:
        """`openai/<model>/<sha of prompts and schemas>/<scorer version>`."""
        return self._fingerprint

    async def judge(self, request: RagRequest) -> Judgement:
        """Return the judgement; a failure is a status with its cause, never a number.

        Raises:
            Postponed: no endpoint can be asked now, or today's budget is used up.
        """
        started = self._clock.monotonic()
        meter = Meter(self._metrics)
        conversation = _Conversation(
            self._config,
            self._prompts,
            self._pool,
            meter,
            Deadline(self._config.deadline_seconds, self._clock),
        )
        status: JudgementStatus = "unscored"
        claims: list[Claim] = []
        reason = faithfulness.unscored_reason(request)
        if reason is None and is_refusal(request.answer or ""):
            reason = "no_claims"
        if reason is None:
            try:
                claims = await conversation.judge(request)
                status, reason = ("judged", None) if claims else ("unscored", "no_claims")
            except JudgeError as err:
                status, reason = "failed", err.cause
                self._log.warning("judgement_failed", cause=err.cause, detail=err.detail)
            await self._pool.finished(conversation.tasks)
        return Judgement(
            trace_id=request.trace_id,
            scorer="faithfulness",
            fingerprint=self._fingerprint,
            status=status,
            score=faithfulness.score(claims) if status == "judged" else None,
            reason=reason,
            claims=claims,
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


class _Conversation:
    """The calls of one judgement."""

    def __init__(
        self,
        config: OpenAIConfig,
        prompts: prompting.Prompts,
        pool: Asker,
        meter: Meter,
        deadline: Deadline,
    ) -> None:
        self._config = config
        self._prompts = prompts
        self._pool = pool
        self._meter = meter
        self._deadline = deadline
        self.replies: list[str] = []
        self.tasks: list[Task] = []

    async def judge(self, request: RagRequest) -> list[Claim]:
        """Return the judged claims, none if the answer claims nothing.

        Raises:
            JudgeError: with its cause.
        """
        texts = await self._list(request.question or "", request.answer or "")
        claims: list[Claim] = []
        for start in range(0, len(texts), _CLAIMS_PER_CALL):
            batch = texts[start : start + _CLAIMS_PER_CALL]
            claims += await self._check(request, batch)
        return claims

    async def _list(self, question: str, answer: str) -> list[str]:
        """Return the claims of the answer.

        An empty list is questioned once where the answer does state something: an answer that
        tells the judge to list nothing would otherwise drop out of the numbers.
        """
        message = prompting.claims_message(question, answer)
        if self._room(self._prompts.claims, message) < 0:
            raise JudgeError("context_too_long", "question and answer exceed max_input_tokens")
        questionable = bool(split_claims(answer, language(answer)))

        def parse(reply: str) -> list[str]:
            nonlocal questionable
            claims = replies.parse_claims(reply)
            if not claims and questionable:
                questionable = False
                raise replies.UnusableReply(_NOTHING_LISTED)
            return claims

        tokens = 2 * prompting.estimate_tokens(answer)
        task = self._task("claims", self._prompts.claims, message, replies.CLAIMS_SCHEMA, tokens)
        return await self._ask(task, parse)

    async def _check(self, request: RagRequest, texts: Sequence[str]) -> list[Claim]:
        """Judge up to `_CLAIMS_PER_CALL` claims against all documents."""
        question = request.question or ""
        numbered = dict(enumerate(texts, start=1))
        merged = {
            number: Claim(text=text, verdict="NOT_FOUND") for number, text in numbered.items()
        }
        empty = prompting.verdicts_message(question, [], numbered)
        room = self._room(self._prompts.verdicts, empty)
        if room < _MIN_DOCUMENT_TOKENS:
            raise JudgeError("context_too_long", "no room for documents within max_input_tokens")
        groups = deque(prompting.group_documents(request.documents, room))
        while groups:
            pieces = groups.popleft()
            pending = {
                number: text
                for number, text in numbered.items()
                if merged[number].verdict != "SUPPORTED"
            }
            if not pending:
                break
            message = prompting.verdicts_message(question, pieces, pending)
            try:
                judged = await self._judge_group(message, pending, request.documents)
            except JudgeError as err:
                smaller = prompting.smaller_groups(pieces)
                if err.cause != "context_too_long" or not smaller:
                    raise
                groups.extendleft(reversed(smaller))
                continue
            for number, claim in judged:
                merged[number] = _stronger(merged[number], claim)
        return list(merged.values())

    async def _judge_group(
        self, message: str, pending: dict[int, str], documents: Sequence[Document]
    ) -> Iterator[tuple[int, Claim]]:
        tokens = _TOKENS_PER_VERDICT * len(pending)
        task = self._task(
            "verdicts", self._prompts.verdicts, message, replies.VERDICTS_SCHEMA, tokens
        )
        verdicts = await self._ask(task, lambda reply: replies.parse_verdicts(reply, list(pending)))
        claims = [
            Claim(
                text=pending[verdict.id],
                verdict=verdict.verdict,
                quote=verdict.quote,
                document_rank=verdict.document,
            )
            for verdict in verdicts
        ]
        # Verified before merging, so that an invented quote cannot hide a real one.
        return zip(pending, faithfulness.verify_quotes(claims, documents), strict=True)

    async def _ask(self, task: Task, parse: Callable[[str], _T]) -> _T:
        """Ask until the reply can be read: once more if it was cut, once more if it is unusable.

        Raises:
            JudgeError: with its cause.
        """
        may_grow = may_repair = True
        while True:
            self.tasks.append(task)
            reply = await self._pool.ask(task, self._deadline, self._meter)
            if reply.text:
                self.replies.append(reply.text)
            if reply.cut:
                if not may_grow or task.max_tokens >= _MAX_OUTPUT_TOKENS:
                    raise JudgeError("truncated_reply", f"at {task.max_tokens} tokens")
                may_grow = False
                grown = min(task.max_tokens * _GROWTH, _MAX_OUTPUT_TOKENS)
                task = task._replace(max_tokens=grown)
                continue
            try:
                return parse(reply.text)
            except replies.UnusableReply as err:
                if not may_repair:
                    cause = "unparseable" if reply.text.strip() else "empty_reply"
                    raise JudgeError(cause, str(err)) from err
                may_repair = False
                task = task._replace(messages=self._repair(task.messages, reply.text, str(err)))

    def _task(
        self, name: str, system: str, message: str, schema: dict[str, Any], output_tokens: int
    ) -> Task:
        return Task(
            messages=[
                {"role": "system", "content": system},
                {"role": "user", "content": message},
            ],
            name=name,
            schema=schema,
            max_tokens=min(_SPARE_TOKENS + output_tokens, _MAX_OUTPUT_TOKENS),
        )

    def _repair(self, messages: Messages, reply: str, problem: str) -> Messages:
        again = prompting.repair_message(self._prompts.repair, problem)
        said: Messages = [{"role": "assistant", "content": reply}] if reply else []
        return [*messages, *said, {"role": "user", "content": again}]

    def _room(self, *texts: str) -> int:
        used = sum(prompting.estimate_tokens(text) for text in texts)
        return self._config.max_input_tokens - used


def _stronger(one: Claim, other: Claim) -> Claim:
    """SUPPORTED beats CONTRADICTED beats NOT_FOUND; an unverified quote stays noted."""
    if _RANKING.index(other.verdict) < _RANKING.index(one.verdict):
        return other
    return other if one.verdict == other.verdict == "NOT_FOUND" and other.note else one
