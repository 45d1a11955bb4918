"""Runs of a golden set made of scores, without any assistant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from collector.evaluation.folder import FinishedRun
from collector.model_evaluation import EvalRow, EvalRun

Scores = Mapping[str, Sequence[float]]
"""Values by measure, one per question."""


def an_eval_run(name: str = "run", **fields: Any) -> EvalRun:
    settings: dict[str, Any] = {
        "run_id": name,
        "started_at": datetime(2026, 11, 2, tzinfo=UTC),
        "golden": "golden.yaml",
        "golden_sha": "0",
        "target": "http://127.0.0.1:1/ask",
        "tier": "full",
        "k": 5,
        "segment_by": "segment",
        "fingerprint": "lexical-1",
    }
    return EvalRun(**settings | fields)


def an_eval_row(number: int, segment: str = "lookup", **fields: Any) -> EvalRow:
    return EvalRow(
        question_id=f"q{number}", question=f"Question {number}?", segment=segment, **fields
    )


def run_of(name: str, scores: Scores, segments: Sequence[str], **fields: Any) -> FinishedRun:
    """Return a run in which question i has the i-th value of each measure."""
    rows = [
        an_eval_row(i, segment, measures={measure: float(v[i]) for measure, v in scores.items()})
        for i, segment in enumerate(segments)
    ]
    return FinishedRun(an_eval_run(name, **fields), {row.question_id: row for row in rows})


class Version:
    """A version of an assistant: for each question its chance to be right, by measure.

    Two runs of the same version differ, as language models do: each answer is drawn again.
    Faithfulness is a share of three claims, of which most answers have all right.

    Args:
        segments: of the questions.
        seed: of the questions' difficulty.
    """

    def __init__(self, segments: Sequence[str], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.segments = segments
        self.chances: dict[str, np.ndarray[Any, Any]] = {
            # Most questions are easy, some are hopeless, some are anybody's guess.
            measure: rng.beta(a, b, len(segments))
            for measure, (a, b) in {
                "recall@5": (6, 0.4),
                "faithfulness": (8, 0.3),
                "correctness": (3, 0.4),
            }.items()
        }

    def changed(self, by: float, *measures: str, segment: str | None = None) -> Version:
        """Return this version with its chances moved, in one segment or in all."""
        other = Version(self.segments, 0)
        here = np.array([segment in (None, name) for name in self.segments])
        other.chances = {
            measure: np.clip(chance + by * (here & (measure in measures)), 0, 1)
            for measure, chance in self.chances.items()
        }
        return other

    def run(self, name: str, seed: int) -> FinishedRun:
        """Ask all questions once."""
        rng = np.random.default_rng(seed)
        draws = {measure: 3 if measure == "faithfulness" else 1 for measure in self.chances}
        scores = {
            measure: [float(hits) / draws[measure] for hits in rng.binomial(draws[measure], chance)]
            for measure, chance in self.chances.items()
        }
        return run_of(name, scores, self.segments)
