"""Did the right pages reach the prompt? Plain arithmetic on ids, no model.

Every measure takes the gold ids of a question and the retrieved ids in rank order, best first,
and returns None, never 0, where the question has no gold. Gold ids are page ids, which survive
re-chunking; chunk ids work too. A retrieved id counts once, at its best rank.
Sources: Manning, Raghavan & Schütze 2008, ch. 8; Voorhees 1999 (reciprocal rank).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from collector.model import Document
from scorers.lexical_text import fold


def retrieved_ids(documents: Iterable[Document], gold: Collection[str]) -> list[str]:
    """Return the id of every document at the level the gold is written in, in rank order.

    Where a chunk id is gold, the rest are told apart by chunk too; otherwise chunks of one page
    are one page. Documents without any id are given one by rank, so that they still take up
    their place.

    Args:
        documents: of the final context.
        gold: page ids, sources or chunk ids.
    """
    ranked = sorted(documents, key=lambda document: document.rank)
    wanted = frozenset(gold)
    by_chunk = any(document.chunk_id in wanted for document in ranked)
    return [_id(document, wanted, by_chunk=by_chunk) for document in ranked]


def _id(document: Document, gold: frozenset[str], *, by_chunk: bool) -> str:
    chunk, pages = [document.chunk_id], [document.document_id, document.source]
    names = [name for name in (chunk + pages if by_chunk else pages + chunk) if name is not None]
    hit = next((name for name in names if name in gold), None)
    return hit or next(iter(names), f"(rank {document.rank}, without id)")


def recall_at_k(
    gold: Collection[str], retrieved: Iterable[str], k: int | None = None
) -> float | None:
    """Return the share of the gold ids among the first k retrieved.

    Args:
        gold: ids that answer the question.
        retrieved: ids in rank order; repeats do not take up a place.
        k: how many to look at, all where None.

    Raises:
        ValueError: k < 1.
    """
    wanted = frozenset(gold)
    top = _top(retrieved, k)
    return len(wanted.intersection(top)) / len(wanted) if wanted else None


def context_recall(gold: Collection[str], context: Iterable[str]) -> float | None:
    """Return the share of the gold ids that are in the final context."""
    return recall_at_k(gold, context)


def precision_at_k(gold: Collection[str], retrieved: Iterable[str], k: int) -> float | None:
    """Return how many of the first k retrieved are gold, over k, also when fewer came back.

    Args:
        gold: ids that answer the question.
        retrieved: ids in rank order; repeats do not take up a place.
        k: how many to look at.

    Raises:
        ValueError: k < 1.
    """
    wanted = frozenset(gold)
    top = _top(retrieved, k)
    return len(wanted.intersection(top)) / k if wanted else None


def context_precision(
    gold: Collection[str], retrieved: Iterable[str], k: int | None = None
) -> float | None:
    """Return how far up the gold stands among the first k: the mean precision at each hit.

    Average precision over the gold that was retrieved, so that 1 means "all gold before all
    else" whatever was missed: what is missing is recall's to say. 0 where nothing was hit.

    Args:
        gold: ids that answer the question.
        retrieved: ids in rank order; repeats do not take up a place.
        k: how many to look at, all where None.

    Raises:
        ValueError: k < 1.
    """
    wanted = frozenset(gold)
    if not wanted:
        return None
    hits = [rank for rank, one in enumerate(_top(retrieved, k), start=1) if one in wanted]
    return sum(nth / rank for nth, rank in enumerate(hits, start=1)) / len(hits) if hits else 0.0


def reciprocal_rank(
    gold: Collection[str], retrieved: Iterable[str], k: int | None = None
) -> float | None:
    """Return 1 / the rank of the first gold id among the first k, 0 when there is none.

    Args:
        gold: ids that answer the question.
        retrieved: ids in rank order; repeats do not take up a place.
        k: how many to look at, all where None.

    Raises:
        ValueError: k < 1.
    """
    wanted = frozenset(gold)
    if not wanted:
        return None
    ranks = (rank for rank, one in enumerate(_top(retrieved, k), start=1) if one in wanted)
    return 1.0 / next(ranks, float("inf"))


def mean_of_defined(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are defined, None where none is.

    Of reciprocal ranks this is the MRR: high recall with a low MRR means that the pages are
    found but rank poorly, and that a reranker is the cheapest fix.
    """
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def _top(retrieved: Iterable[str], k: int | None) -> list[str]:
    if k is not None and k < 1:
        raise ValueError(f"k is {k}: it must be at least 1")
    return list(dict.fromkeys(retrieved))[:k]


def quote_reached(quotes: Sequence[str], texts: Iterable[str]) -> float | None:
    """Return the share of the quotes that stand in the context, None where there is no quote.

    Case, white space, Unicode form, punctuation and markup do not matter. A quote may run over
    the border of two neighbouring documents, which chunking cuts anywhere.

    Args:
        quotes: short passages that answer the question; empty ones are ignored.
        texts: of the documents of the final context, in rank order.
    """
    wanted = [f" {folded} " for folded in map(fold, quotes) if folded]
    if not wanted:
        return None
    parts = list(texts)
    # Joined with and without a space: a border may lie within a word.
    contexts = [f" {fold(joint.join(parts))} " for joint in (" ", "")]
    return sum(any(quote in context for context in contexts) for quote in wanted) / len(wanted)
