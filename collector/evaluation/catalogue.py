"""The measures of a run: their names, units and which way is better."""

from __future__ import annotations

from typing import Literal, NamedTuple

Unit = Literal["score", "ms", "tokens", "usd"]


class Measure(NamedTuple):
    """One measure. A `score` lies in [0, 1]; of the other units less is better."""

    name: str
    meaning: str
    unit: Unit = "score"
    more_is_better: bool = True


def catalogue(k: int) -> list[Measure]:
    """Return every measure, in the order in which they are shown.

    Args:
        k: of recall@k and precision@k.
    """
    return [
        Measure(f"recall@{k}", f"gold sources among the first {k} retrieved"),
        Measure("context_recall", "gold sources that reached the final context"),
        Measure(f"precision@{k}", f"gold among the first {k} retrieved, over {k}"),
        Measure("context_precision", "how far up the context its gold stands"),
        Measure("mrr", "1 / rank of the first gold source retrieved"),
        Measure("quote_reached", "golden quotes that reached the context"),
        Measure("faithfulness", "claims of the answer that the context supports"),
        Measure("answer_relevance", "whether the answer addresses the question"),
        Measure("correctness", "claims of the reference answer that the answer states"),
        Measure("refusal", "unanswerable questions that were refused"),
        Measure("wrong_refusal", "answerable questions that were refused", more_is_better=False),
        Measure("latency_ms", "milliseconds to the answer", "ms", more_is_better=False),
        Measure("input_tokens", "tokens of the prompt", "tokens", more_is_better=False),
        Measure("output_tokens", "tokens of the answer", "tokens", more_is_better=False),
        Measure("cost_usd", "US dollars for the answer", "usd", more_is_better=False),
    ]


def full_name(measure: str, k: int) -> str:
    """Return the name of a measure in a run: `recall` and `precision` stand for those at k."""
    return f"{measure}@{k}" if measure in ("recall", "precision") else measure
