"""Retrieval measures against other people's implementations, on a thousand random lists.

trec_eval (through pytrec_eval) computes recall, precision, reciprocal rank and average precision;
it divides the latter by all gold, ours by the gold that was found. The formulas of RAGAS, which is
heavy to install, are written out as its documentation gives them.
"""

from __future__ import annotations

import random

import pytest
import pytrec_eval

from scorers import retrieval

K = 5
LISTS = 1000


def random_case(seed: int) -> tuple[list[str], list[str]]:
    """Return gold ids and a list retrieved, best first, without repeats."""
    rng = random.Random(seed)
    pages = [f"page-{number}" for number in range(30)]
    gold = rng.sample(pages, rng.randint(1, 6))
    return gold, rng.sample(pages, rng.randint(1, 20))


@pytest.fixture(scope="module")
def trec_eval() -> dict[str, dict[str, float]]:
    cases = {str(seed): random_case(seed) for seed in range(LISTS)}
    qrels = {name: dict.fromkeys(gold, 1) for name, (gold, _) in cases.items()}
    runs = {
        name: {page: float(len(found) - rank) for rank, page in enumerate(found)}
        for name, (_, found) in cases.items()
    }
    measures = {f"recall.{K}", f"P.{K}", "recip_rank", "map"}
    scores: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(
        runs
    )
    return scores


def test_trec_eval_agrees(trec_eval: dict[str, dict[str, float]]) -> None:
    for seed in range(LISTS):
        gold, found = random_case(seed)
        theirs = trec_eval[str(seed)]
        hits = len(set(gold) & set(found))
        ours = {
            f"recall_{K}": retrieval.recall_at_k(gold, found, K),
            f"P_{K}": retrieval.precision_at_k(gold, found, K),
            "recip_rank": retrieval.reciprocal_rank(gold, found),
            "map": (retrieval.context_precision(gold, found) or 0.0) * hits / len(gold),
        }
        assert ours == pytest.approx(theirs, abs=1e-9), seed


def test_the_formulas_of_ragas_agree() -> None:
    for seed in range(LISTS):
        gold, found = random_case(seed)
        # IDBasedContextRecall: unique reference ids that were retrieved / reference ids.
        recall = len(set(gold) & set(found)) / len(set(gold))
        assert retrieval.context_recall(gold, found) == pytest.approx(recall, abs=1e-9)
        # ContextPrecision: sum of precision@k at every relevant k / relevant items retrieved.
        verdicts = [page in gold for page in found]
        at_hits = [sum(verdicts[:k]) / k for k, hit in enumerate(verdicts, start=1) if hit]
        precision = sum(at_hits) / len(at_hits) if at_hits else 0.0
        assert retrieval.context_precision(gold, found) == pytest.approx(precision, abs=1e-9)
