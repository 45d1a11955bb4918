"""A small assistant on the passages of MTRAG-UN, a public golden set of 507 questions (IBM).

It is BM25 and one sentence of the best passage, or a refusal where little of the question is
found: weak on purpose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bm25s
import Stemmer  # type: ignore[import-not-found,unused-ignore]

from tests.conftest import SHARED

FOLDER = SHARED / "data" / "mtragun"
REFUSAL = "I don't know, the documents do not mention it."
_REFUSES_BELOW = 9.0


class Bm25Assistant:
    """Finds passages by BM25, quotes the best one's first sentence or refuses."""

    def __init__(self) -> None:
        self._passages = passages = json_lines(FOLDER / "corpus.jsonl")
        self._stemmer = Stemmer.Stemmer("english")
        self._index = bm25s.BM25()
        self._index.index(self._tokens([p["text"] for p in passages]), show_progress=False)

    def _tokens(self, texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        found, scores = self._index.retrieve(
            self._tokens([body["question"]]), k=10, show_progress=False
        )
        documents = [
            {"document_id": self._passages[i]["id"], "text": self._passages[i]["text"]}
            for i in found[0]
        ]
        sentence = documents[0]["text"].strip().partition(". ")[0]
        answer = sentence if scores[0][0] >= _REFUSES_BELOW else REFUSAL
        return {"answer": answer, "documents": documents}


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
