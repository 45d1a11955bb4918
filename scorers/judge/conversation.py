"""The calls of one judgement: what is listed, checked against documents, split, merged, repaired.

A context that is too long for one call, by our count or the endpoint's, is spread over several,
whole documents together where possible. Later calls get only the claims that are not supported
yet. A claim that needs two documents of different calls is not found: the one known weakness of
the split.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from collector.config import OpenAIConfig
from collector.errors import JudgeError
from collector.model import Claim, Document
from collector.timing import Deadline
from scorers import faithfulness
from scorers.judge import prompting, replies
from scorers.judge.completions import Messages, Reply, Task
from scorers.judge.pricing import Meter
from scorers.lexical_claims import split_claims
from scorers.lexical_text import language

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


class Conversation:
    """The calls of one judgement.

    Args:
        config: of the model.
        prompts: all of them.
        pool: asks the model.
        meter: counts what is consumed.
        deadline: of the judgement.
    """

    def __init__(
        self,
        config: OpenAIConfig,
        prompts: prompting.Prompts,
        pool: Asker,
        meter: Meter,
        deadline: Deadline,
    ) -> None:
        self._config = config
        self.prompts = prompts
        self._pool = pool
        self._meter = meter
        self._deadline = deadline
        self.replies: list[str] = []
        self.tasks: list[Task] = []

    async def claims_of(self, question: str, answer: str) -> list[str]:
        """Return the claims of the answer, none if it claims nothing.

        An empty list is questioned once where the answer does state something: an answer that
        tells the judge to list nothing would otherwise drop out of the numbers. Claims that share
        no word with question or answer are not the answer's: small models copy our example.

        Raises:
            JudgeError: with its cause.
        """
        message = prompting.claims_message(question, answer)
        if self._room(self.prompts.claims, message) < 0:
            raise JudgeError("context_too_long", "question and answer exceed max_input_tokens")
        questionable = bool(split_claims(answer, language(answer)))

        def parse(reply: str) -> list[str]:
            nonlocal questionable
            claims = replies.parse_claims(reply)
            if not claims and questionable:
                questionable = False
                raise replies.UnusableReply(_NOTHING_LISTED)
            if invented := replies.strange_to(claims, f"{question}\n{answer}"):
                raise replies.UnusableReply(f"{invented} claims share no word with the answer")
            return claims

        tokens = 2 * prompting.estimate_tokens(answer)
        task = self._task("claims", self.prompts.claims, message, replies.CLAIMS_SCHEMA, tokens)
        return await self._ask(task, parse)

    async def needs_of(self, question: str) -> list[str]:
        """Return what the question wants to know, part by part, none if it asks nothing.

        Raises:
            JudgeError: with its cause.
        """
        message = prompting.question_message(question)
        if self._room(self.prompts.needs, message) < 0:
            raise JudgeError("context_too_long", "the question exceeds max_input_tokens")
        tokens = 2 * prompting.estimate_tokens(question)
        task = self._task("needs", self.prompts.needs, message, replies.NEEDS_SCHEMA, tokens)
        return await self._ask(task, replies.parse_needs)

    async def refuses(self, question: str, answer: str) -> bool:
        """Return whether the answer refuses.

        Raises:
            JudgeError: with its cause.
        """
        message = prompting.claims_message(question, answer)
        if self._room(self.prompts.refusal, message) < 0:
            raise JudgeError("context_too_long", "question and answer exceed max_input_tokens")
        task = self._task("refusal", self.prompts.refusal, message, replies.REFUSAL_SCHEMA, 0)
        return await self._ask(task, replies.parse_refusal)

    async def check(
        self, system: str, question: str, texts: Sequence[str], documents: Sequence[Document]
    ) -> list[Claim]:
        """Return a verdict on each text, with evidence that stands in the documents.

        Args:
            system: the prompt that says what a verdict means.
            question: of the user.
            texts: what is checked: claims, or what a question wants to know.
            documents: what it is checked against.

        Raises:
            JudgeError: with its cause.
        """
        claims: list[Claim] = []
        for start in range(0, len(texts), _CLAIMS_PER_CALL):
            batch = texts[start : start + _CLAIMS_PER_CALL]
            claims += await self._check_batch(system, question, batch, documents)
        return claims

    async def rate(self, question: str, documents: Sequence[Document]) -> list[Claim]:
        """Return for each document whether it helps to answer: SUPPORTED if it does.

        The claim's text is the document's title or id; its evidence stands in that document.

        Raises:
            JudgeError: with its cause.
        """
        system = self.prompts.helpful
        room = self._room(system, prompting.documents_message(question, []))
        if room < _MIN_DOCUMENT_TOKENS:
            raise JudgeError("context_too_long", "no room for documents within max_input_tokens")
        by_rank = {document.rank: document for document in documents}
        rated = {
            rank: Claim(text=name_of(document), verdict="NOT_FOUND", document_rank=rank)
            for rank, document in by_rank.items()
        }
        groups = deque(prompting.group_documents(documents, room))
        while groups:
            pieces = groups.popleft()
            ranks = list(dict.fromkeys(piece.rank for piece in pieces))
            message = prompting.documents_message(question, pieces)
            tokens = _TOKENS_PER_VERDICT * len(ranks)
            task = self._task("helpful", system, message, replies.HELPFUL_SCHEMA, tokens)
            try:
                found = await self._ask(task, partial(replies.parse_helpful, ranks=ranks))
            except JudgeError as err:
                groups.extendleft(reversed(_smaller(pieces, err)))
                continue
            for reply in found:
                claim = msgspec.structs.replace(
                    rated[reply.document],
                    verdict="SUPPORTED" if reply.helps else "NOT_FOUND",
                    quote=reply.quote,
                )
                (verified,) = faithfulness.verify_quotes([claim], [by_rank[reply.document]])
                kept = _stronger(rated[reply.document], verified)
                rated[reply.document] = msgspec.structs.replace(kept, document_rank=reply.document)
        return list(rated.values())

    async def _check_batch(
        self, system: str, question: str, texts: Sequence[str], documents: Sequence[Document]
    ) -> list[Claim]:
        numbered = dict(enumerate(texts, start=1))
        merged = {
            number: Claim(text=text, verdict="NOT_FOUND") for number, text in numbered.items()
        }
        empty = prompting.verdicts_message(question, [], numbered)
        room = self._room(system, empty)
        if room < _MIN_DOCUMENT_TOKENS:
            raise JudgeError("context_too_long", "no room for documents within max_input_tokens")
        groups = deque(prompting.group_documents(documents, room))
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
                judged = await self._judge_group(system, message, pending, documents)
            except JudgeError as err:
                groups.extendleft(reversed(_smaller(pieces, err)))
                continue
            for number, claim in judged:
                merged[number] = _stronger(merged[number], claim)
        return list(merged.values())

    async def _judge_group(
        self, system: str, message: str, pending: dict[int, str], documents: Sequence[Document]
    ) -> Iterator[tuple[int, Claim]]:
        tokens = _TOKENS_PER_VERDICT * len(pending)
        task = self._task("verdicts", system, message, replies.VERDICTS_SCHEMA, tokens)
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
        again = prompting.repair_message(self.prompts.repair, problem)
        said: Messages = [{"role": "assistant", "content": reply}] if reply else []
        return [*messages, *said, {"role": "user", "content": again}]

    def _room(self, *texts: str) -> int:
        used = sum(prompting.estimate_tokens(text) for text in texts)
        return self._config.max_input_tokens - used


def _smaller(pieces: Sequence[prompting.Piece], err: JudgeError) -> list[list[prompting.Piece]]:
    """Return the pieces spread over more calls, where that cures the error; raise it elsewhere."""
    smaller = prompting.smaller_groups(pieces) if err.cause == "context_too_long" else []
    if not smaller:
        raise err
    return smaller


def _stronger(one: Claim, other: Claim) -> Claim:
    """SUPPORTED beats CONTRADICTED beats NOT_FOUND; an unverified quote stays noted."""
    if _RANKING.index(other.verdict) < _RANKING.index(one.verdict):
        return other
    return other if one.verdict == other.verdict == "NOT_FOUND" and other.note else one


def name_of(document: Document) -> str:
    """Return what a document is called: its title, else its id, else its rank."""
    return document.title or document.document_id or f"document {document.rank}"
