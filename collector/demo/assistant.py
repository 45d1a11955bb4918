"""The assistant that the demo watches: real retrieval, and a model that follows a script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from collector.demo.corpus import load_pages
from collector.demo.retrieval import Bm25Retriever, Hit, TermOverlapReranker
from collector.demo.script import Channel, Script, TurnKind, lines, load_script, question_key

MODEL = "acme-scripted-1"
INSTRUCTIONS = (
    "You are the assistant of Acme Desk. Answer only from the numbered pages below and cite them "
    "like [1]. If they do not hold the answer, say that you do not know."
)
REFUSAL = "I don't know, the Acme Desk pages do not mention it."

_CITED_PAGE = re.compile(r" ?\[p(\d+)\]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")
_CANDIDATES = 8
_APP_PAGES = 4
_BUDGET_WORDS = 300
_ANSWERS_FROM = 0.5
"""Share of a question's terms that a sentence must hold to be quoted as an answer."""


class Answered(NamedTuple):
    """One answered question with everything that happened on the way.

    `candidates` is what the retriever returned, best first; `context` what reached the model,
    the same list where nothing was reranked. `kind` is None where the question is not in the
    script. Token counts are estimates.
    """

    question: str
    channel: Channel
    query: str
    candidates: list[Hit]
    context: list[Hit]
    reranked: bool
    system_prompt: str
    answer: str
    kind: TurnKind | None
    input_tokens: int
    output_tokens: int


class Assistant:
    """Answers questions about Acme Desk.

    Args:
        fixed: repair what is planted: synonyms are searched, the weak reranker and its budget are
            gone, and the model says what is right.
        script: the script, where it is read already.
        lost: a segment whose right pages an index has lost; the model answers it all the same.
    """

    def __init__(
        self, *, fixed: bool = False, script: Script | None = None, lost: str | None = None
    ) -> None:
        script = script or load_script()
        self._fixed = fixed
        self._lost = lost
        self._lines = lines(script)
        self._retriever = Bm25Retriever(load_pages(), script.synonyms if fixed else None)
        self._reranker = TermOverlapReranker(self._retriever, _BUDGET_WORDS)

    def answer(
        self,
        question: str,
        *,
        channel: Channel = "web",
        history: Sequence[tuple[str, str]] = (),
    ) -> Answered:
        """Answer one question. Pure: the same question always gets the same answer.

        Args:
            question: what the user asks.
            channel: `web` retrieves widely and reranks into the budget, `app` takes the best
                few pages as they come.
            history: earlier (question, answer) pairs of the conversation, for the prompt only.
        """
        query = self._retriever.expand(question)
        reranked = channel == "web" and not self._fixed
        wide = channel == "web" or self._fixed
        found = self._retriever.search(query, _CANDIDATES if wide else _APP_PAGES)
        gone = self._gone(question)
        candidates = [hit for hit in found if hit.page.page_id not in gone]
        context = self._reranker.rerank(query, candidates) if reranked else candidates
        text, kind = self._say(question, context)
        prompt = "\n\n".join([INSTRUCTIONS, *(_numbered(n, hit) for n, hit in _ranked(context))])
        said = [part for pair in history for part in pair]
        return Answered(
            question=question,
            channel=channel,
            query=query,
            candidates=candidates,
            context=context,
            reranked=reranked,
            system_prompt=prompt,
            answer=text,
            kind=kind,
            input_tokens=count_tokens(" ".join([prompt, *said, question])),
            output_tokens=count_tokens(text),
        )

    def _gone(self, question: str) -> list[str]:
        """Return the pages that a lossy index does not find for a question."""
        line = self._lines.get(question_key(question))
        return line.sources if line is not None and line.segment == self._lost else []

    def _say(self, question: str, context: Sequence[Hit]) -> tuple[str, TurnKind | None]:
        line = self._lines.get(question_key(question))
        if line is None:
            return self._quote(question, context), None
        text = line.reference if self._fixed else line.answer
        return cite(text, [hit.page.page_id for hit in context]), line.kind

    def _quote(self, question: str, context: Sequence[Hit]) -> str:
        """Answer off script: the sentence that holds most terms of the question, or a refusal."""
        asked = set(self._retriever.terms(question))
        best, most = REFUSAL, _ANSWERS_FROM * max(1, len(asked))
        for rank, hit in _ranked(context):
            for sentence in _SENTENCE_END.split(hit.page.text):
                held = len(asked & set(self._retriever.terms(sentence)))
                if held >= most:
                    best, most = f"{sentence.rstrip('.')} [{rank}].", held + 1
        return best


def cite(text: str, context: Sequence[str]) -> str:
    """Turn `[p201]` into the 1-based number of page 201 in the context.

    A page that the model has not seen cannot be cited: its marker is dropped.
    """

    def numbered(found: re.Match[str]) -> str:
        return f" [{context.index(found[1]) + 1}]" if found[1] in context else ""

    return _CITED_PAGE.sub(numbered, text)


def count_tokens(text: str) -> int:
    """Estimate tokens: pieces of words of at most six letters, and punctuation."""
    return len(_TOKEN.findall(text))


def _ranked(context: Sequence[Hit]) -> list[tuple[int, Hit]]:
    return list(enumerate(context, start=1))


def _numbered(rank: int, hit: Hit) -> str:
    return f"[{rank}] {hit.page.title}\n{hit.page.text}"
