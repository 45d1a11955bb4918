"""Retrieval of the demo assistant: BM25 over paragraphs, whole pages returned, a crude reranker.

Searching small and returning large keeps the ids of pages as document ids, which is what gold
labels name. The reranker is weak on purpose: some right pages fall out of its context budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import bm25s
import Stemmer  # type: ignore[import-not-found,unused-ignore]

from collector.demo.corpus import Page


class Hit(NamedTuple):
    """A page that was found. `score` is BM25 from the retriever, a share from the reranker."""

    page: Page
    score: float


class Bm25Retriever:
    """Okapi BM25 (Robertson and Zaragoza, 2009) by `bm25s`, English stems, titles indexed too."""

    def __init__(self, pages: Sequence[Page], synonyms: Mapping[str, str] | None = None) -> None:
        """Index the pages.

        Args:
            pages: the corpus.
            synonyms: words of a question by what is searched besides; none by default.
        """
        self._synonyms = synonyms or {}
        self._stemmer = Stemmer.Stemmer("english")
        chunks = [(page, text) for page in pages for text in page.paragraphs]
        self._pages = [page for page, _ in chunks]
        self._index = bm25s.BM25()
        self._index.index(
            [self.terms(f"{page.title}\n{text}") for page, text in chunks], show_progress=False
        )

    def terms(self, text: str) -> list[str]:
        """Return the search terms of a text: lower case, stemmed, without stop words."""
        (tokens,) = bm25s.tokenize(
            [text],
            stopwords="en_plus",
            stemmer=self._stemmer,
            return_ids=False,
            show_progress=False,
        )
        return [str(token) for token in tokens]

    def expand(self, question: str) -> str:
        """Return the query of a question: itself and the synonyms of what it says."""
        lowered = question.lower()
        added = [words for known, words in self._synonyms.items() if known in lowered]
        return " ".join([question, *added])

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` pages by their best paragraph; pages without a term are left out."""
        terms = self.terms(query)
        if not terms:
            return []
        best: dict[str, Hit] = {}
        for page, score in zip(self._pages, self._index.get_scores(terms), strict=True):
            known = best.get(page.page_id)
            if score > 0 and (known is None or score > known.score):
                best[page.page_id] = Hit(page, round(float(score), 4))
        return sorted(best.values(), key=lambda hit: (-hit.score, int(hit.page.page_id)))[:k]


class TermOverlapReranker:
    """Orders pages by the share of the question's terms that they hold, and fills a budget.

    It does not weigh terms, so that a page with many common words beats the one with the rare
    word that matters.
    """

    name = "term-overlap-reranker"

    def __init__(self, retriever: Bm25Retriever, budget_words: int) -> None:
        self._retriever = retriever
        self._budget_words = budget_words

    def rerank(self, question: str, candidates: Sequence[Hit]) -> list[Hit]:
        """Return the pages that fit the context budget, best first. Pages are never cut."""
        asked = set(self._retriever.terms(question))
        ordered = sorted(
            (Hit(hit.page, self._overlap(asked, hit.page)) for hit in candidates),
            key=lambda hit: -hit.score,
        )
        kept: list[Hit] = []
        left = self._budget_words
        for hit in ordered:
            left -= len(hit.page.text.split())
            if left < 0:
                break
            kept.append(hit)
        return kept

    def _overlap(self, asked: set[str], page: Page) -> float:
        held = set(self._retriever.terms(f"{page.title}\n{page.text}"))
        return round(len(asked & held) / max(1, len(asked)), 4)
