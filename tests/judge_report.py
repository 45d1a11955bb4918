"""How well the local judge agrees with people, on public labelled data beside the project.

    python -m tests.judge_report

Thresholds are fitted on one random half of a data set and reported on the other, both ways, over
twenty splits. Nothing of the judge itself is fitted here.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata

from collector.model import Document, RagRequest
from scorers.lexical import SUPPORTED_FROM, lexical_score

DATA = Path(__file__).parents[1].parent / "shared" / "data"
SPLITS = 20
FAITHFUL_FROM = 3.5
"""Mean of three human ratings from 1 to 4 from which an MTRAG answer counts as faithful."""

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Example(NamedTuple):
    """An answer with its context, and whether people found all of it supported."""

    request: RagRequest
    supported: bool


class Result(NamedTuple):
    """Agreement on one data set. `fixed_accuracy` is balanced accuracy at `SUPPORTED_FROM`."""

    n: int
    supported: int
    unscored: int
    auroc: float
    balanced_accuracy: float
    fixed_accuracy: float
    claims_per_second: float


def wice() -> list[Example]:
    """Claims of Wikipedia against the web pages they cite; partly supported is unsupported."""
    return [
        _example(row, "What is claimed?", ["\n".join(row["context"])], row["label"] == "supported")
        for row in _rows("wice/claim_dev.jsonl")
    ]


def begin() -> list[Example]:
    """Replies of four generators against the one sentence they were given."""
    return [
        _example(row, row["question"], row["context"], row["label"] == "supported")
        for row in _rows("begin/wow_dev.jsonl")
    ]


def mtrag() -> list[Example]:
    """Answers of RAG assistants, rated by three people."""
    texts = {row["id"]: row["text"] for row in _rows("mtrag_human_eval/corpus.jsonl")}
    return [
        _example(
            row,
            row["question"],
            [texts[number] for number in row["context_ids"] if number in texts],
            statistics.mean(row["human"]["faithfulness"].values()) >= FAITHFUL_FROM,
        )
        for row in _rows("mtrag_human_eval/evaluations.jsonl")
    ]


DATA_SETS: dict[str, Callable[[], list[Example]]] = {
    "WiCE dev": wice,
    "BEGIN-wow dev": begin,
    "MTRAG answers": mtrag,
}


def typical_requests() -> list[RagRequest]:
    """Return MTRAG answers, each with five documents of 800 characters, to measure speed on."""
    examples = [example.request for example in mtrag() if example.request.documents]
    texts = [document.text or "" for request in examples for document in request.documents]
    blocks = "\n".join(texts)
    return [
        RagRequest(
            trace_id=request.trace_id,
            question=request.question,
            answer=request.answer,
            documents=[
                Document(rank=rank, text=blocks[start : start + 800])
                for rank, start in enumerate(range(number * 4000, number * 4000 + 4000, 800), 1)
            ],
        )
        for number, request in enumerate(examples)
        if number * 4000 + 4000 < len(blocks)
    ]


def claims_per_second(requests: Sequence[RagRequest]) -> float:
    """Return claims judged per second of processor time on one core."""
    started = time.process_time()
    claims = sum(len(lexical_score(request).claims) for request in requests)
    return claims / (time.process_time() - started)


def measure(examples: Sequence[Example]) -> Result:
    """Score all examples; those without claims are left out, as they are in production."""
    started = time.process_time()
    results = [lexical_score(example.request) for example in examples]
    seconds = time.process_time() - started
    scored = [
        (result.score, example.supported)
        for result, example in zip(results, examples, strict=True)
        if result.score is not None
    ]
    scores = np.array([score for score, _ in scored], dtype=np.float64)
    labels = np.array([label for _, label in scored], dtype=np.bool_)
    return Result(
        n=len(scored),
        supported=int(labels.sum()),
        unscored=len(examples) - len(scored),
        auroc=auroc(scores, labels),
        balanced_accuracy=held_out_accuracy(scores, labels),
        fixed_accuracy=balanced_accuracy(scores, labels, SUPPORTED_FROM),
        claims_per_second=sum(len(result.claims) for result in results) / seconds,
    )


def auroc(scores: Floats, labels: Bools) -> float:
    """Return the share of pairs of a supported and an unsupported answer in the right order."""
    positives = int(labels.sum())
    negatives = len(labels) - positives
    rank_sum = float(rankdata(scores)[labels].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def balanced_accuracy(scores: Floats, labels: Bools, threshold: float) -> float:
    """Return the mean of the accuracies on supported and on unsupported answers."""
    called = scores >= threshold
    return float(called[labels].mean() + (~called[~labels]).mean()) / 2


def held_out_accuracy(scores: Floats, labels: Bools) -> float:
    """Return the balanced accuracy on one half at the threshold that suits the other half."""
    rng = np.random.default_rng(0)
    found: list[float] = []
    for _ in range(SPLITS):
        half = rng.permutation(len(scores)) < len(scores) // 2
        for fitted in (half, ~half):
            threshold = _fit(scores[fitted], labels[fitted])
            found.append(balanced_accuracy(scores[~fitted], labels[~fitted], threshold))
    return statistics.mean(found)


def _fit(scores: Floats, labels: Bools) -> float:
    values = np.unique(scores)
    between = [0.0, *((values[1:] + values[:-1]) / 2)]
    return float(max(between, key=lambda cut: balanced_accuracy(scores, labels, cut)))


def _example(row: dict[str, Any], question: str, texts: list[str], supported: bool) -> Example:
    documents = [Document(rank=rank, text=text) for rank, text in enumerate(texts, 1)]
    request = RagRequest(
        trace_id=row["id"], question=question, answer=row["answer"], documents=documents
    )
    return Example(request, supported)


def _rows(name: str) -> Iterator[dict[str, Any]]:
    with (DATA / name).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    table = Table(title="The local judge against people")
    for heading in (
        *("data set", "n", "supported", "unscored", "AUROC", "balanced accuracy"),
        *(f"at {SUPPORTED_FROM}", "claims/s"),
    ):
        table.add_column(heading, justify="left" if heading == "data set" else "right")
    for name, load in DATA_SETS.items():
        result = measure(load())
        table.add_row(
            name,
            *(str(count) for count in result[:3]),
            *(f"{share:.3f}" for share in result[3:6]),
            f"{result.claims_per_second:,.0f}",
        )
    console = Console(width=110)
    console.print(table)
    speed = claims_per_second(typical_requests())
    console.print(f"With five documents of 800 characters: {speed:,.0f} claims/s on one core.")


if __name__ == "__main__":
    main()
