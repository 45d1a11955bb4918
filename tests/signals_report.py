"""How well implicit signals are found, on public labelled conversations beside the project.

    python -m tests.signals_report
    python -m tests.signals_report --fit

Models and thresholds are chosen on one half of the conversations and reported on the other, both
ways. `--fit` prints what the first half gives: the numbers that stand in `scorers/implicit`. The
lists of cue words were written after reading the MTRAG-UN conversations, so that its figures
are better than a stranger's would be; no data set taught the models anything else.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

from scorers.implicit import pushback, rephrase
from scorers.implicit.logistic import Logistic
from tests.fakes.question_pairs import PAIRS
from tests.judge_report import DATA, Bools, Floats, auroc

REPHRASE_LIMIT = 0.06
PUSHBACK_LIMIT = 0.05
"""False positives allowed on the half a threshold is chosen on, of each kind of follow-up."""

_PENALTY = 1.0
_CUES = re.compile(r"\b(?:but|actually|meant?|sure|said|again|explain\w*)\b", re.IGNORECASE)


class Pair(NamedTuple):
    """A turn of a user, the turn before it, and whether it is what is looked for."""

    conversation: str
    question: str
    answer: str
    later: str
    positive: bool

    @property
    def half(self) -> int:
        """0 or 1, the same for all turns of a conversation."""
        return blake2b(self.conversation.encode(), digest_size=1).digest()[0] % 2


class Rates(NamedTuple):
    """Share of the positives found, and of the others taken for one; None without any."""

    recall: float | None
    false_positives: float | None

    @property
    def balanced_accuracy(self) -> float:
        """Mean of recall and specificity."""
        return ((self.recall or 0.0) + 1 - (self.false_positives or 0.0)) / 2


class Fit(NamedTuple):
    """A model and its threshold, as chosen on one half."""

    model: Logistic
    threshold: float


def followup() -> list[Pair]:
    """Restatements of a question with its context folded in, against follow-ups of people."""
    return [
        Pair(row["conversation_id"], row["prev_query"], "", row["query"], row["is_rephrase"])
        for row in _rows("rephrase_followup/train.jsonl")
        if row["is_rephrase"] is not None
    ]


def iard() -> list[Pair]:
    """Turns that people labelled as reformulating a wish for a film, against all others."""
    return [
        Pair(
            row["conversation_id"],
            row["prev_query"],
            row.get("prev_answer") or "",
            row["query"],
            row["is_rephrase"],
        )
        for row in _rows("iard_intents/rephrase.jsonl")
    ]


def mtrag() -> list[Pair]:
    """Clarifications that users asked a RAG assistant for, against follow-up questions."""
    pairs = []
    for row in _rows("mtragun/golden.jsonl"):
        if row["multi_turn"] in (["Clarification"], ["Follow-up"]):
            said = {turn["role"]: turn["text"] for turn in row["history"]}
            pairs.append(
                Pair(
                    row["conversation_id"],
                    said.get("user", ""),
                    said.get("agent", ""),
                    row["question"],
                    row["multi_turn"] == ["Clarification"],
                )
            )
    return pairs


def own() -> list[Pair]:
    """Pairs written for this project, harder than the public ones."""
    return [Pair(str(n), earlier, "", later, yes) for n, (yes, earlier, later) in enumerate(PAIRS)]


def rephrase_features(pairs: Sequence[Pair]) -> Floats:
    """Return what the rephrase model sees, a row per pair."""
    return np.array([rephrase.features(pair.question, pair.later) for pair in pairs])


def pushback_features(pairs: Sequence[Pair]) -> Floats:
    """Return what the push-back model sees, a row per pair."""
    return np.array([pushback.features(pair.question, pair.answer, pair.later) for pair in pairs])


class Sample(NamedTuple):
    """Pairs as a model sees them."""

    pairs: list[Pair]
    features: Floats
    positive: Bools
    half: NDArray[np.int_]

    @classmethod
    def of(cls, pairs: list[Pair], features: Floats) -> Sample:
        """Read the labels and halves of pairs."""
        positive = np.array([pair.positive for pair in pairs], dtype=np.bool_)
        return cls(pairs, features, positive, np.array([pair.half for pair in pairs]))

    def taken(self, which: Bools) -> Sample:
        """Return some of the pairs."""
        pairs = [pair for pair, keep in zip(self.pairs, which, strict=True) if keep]
        return Sample(pairs, self.features[which], self.positive[which], self.half[which])

    def in_half(self, half: int) -> Sample:
        """Return the pairs of one half."""
        return self.taken(self.half == half)

    def scores(self, model: Logistic) -> Floats:
        """Return the confidence of each pair."""
        return np.array([model(row) for row in self.features])

    def rates(self, scores: Floats, threshold: float) -> Rates:
        """Return recall and false positives at a threshold."""
        called = scores >= threshold
        return Rates(_share(called[self.positive]), _share(called[~self.positive]))


def fit_rephrase(restated: Sample, dialogue: Sample) -> Fit:
    """Fit on restatements and both kinds of follow-ups, each kind weighing the same.

    The threshold is the lowest that keeps the false positives of both kinds at bay.
    """
    follow_ups = dialogue.taken(~dialogue.positive)
    groups = [
        (restated.features[restated.positive], True, 2.0),
        (restated.features[~restated.positive], False, 1.0),
        (follow_ups.features, False, 1.0),
    ]
    # What is kept can only speak for a rephrase, signs of a follow-up only against one.
    model = _fit(groups, signs=(1, -1, -1))
    others = (restated.taken(~restated.positive), follow_ups)
    return Fit(model, max(_cut(other.scores(model), REPHRASE_LIMIT) for other in others))


def fit_pushback(dialogue: Sample) -> Fit:
    """Fit on clarifications against follow-ups, both weighing the same."""
    groups = [
        (dialogue.features[dialogue.positive], True, 1.0),
        (dialogue.features[~dialogue.positive], False, 1.0),
    ]
    model = _fit(groups, signs=(1,) * dialogue.features.shape[1])
    return Fit(model, _cut(dialogue.taken(~dialogue.positive).scores(model), PUSHBACK_LIMIT))


def containment(pairs: Sequence[Pair]) -> Floats:
    """Return the baseline of rephrases: the share of the shorter question in the longer one."""
    scores = []
    for pair in pairs:
        before, after = (set(re.findall(r"\w+", t.lower())) for t in (pair.question, pair.later))
        scores.append(len(before & after) / max(1, min(len(before), len(after))))
    return np.array(scores)


def cue_words(pairs: Sequence[Pair]) -> Floats:
    """Return the baseline of push-back: how many of a few cue words there are."""
    return np.array([float(len(_CUES.findall(pair.later))) for pair in pairs])


def _fit(groups: Sequence[tuple[Floats, bool, float]], signs: Sequence[int]) -> Logistic:
    """Fit a logistic model, groups weighted, each weight of the given sign or zero."""
    x = np.concatenate([features for features, _, _ in groups])
    y = np.concatenate([np.full(len(features), float(label)) for features, label, _ in groups])
    w = np.concatenate([np.full(len(f), 100 * share / len(f)) for f, _, share in groups])

    def loss(t: Floats) -> tuple[float, Floats]:
        z = x @ t[:-1] + t[-1]
        residual = w * (1 / (1 + np.exp(-z)) - y)
        value = float((w * (np.logaddexp(0, z) - y * z)).sum() + _PENALTY * (t[:-1] @ t[:-1]) / 2)
        return value, np.append(x.T @ residual + _PENALTY * t[:-1], residual.sum())

    bounds = [(0, None) if sign > 0 else (None, 0) for sign in signs]
    start = np.zeros(x.shape[1] + 1)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)]).x
    return Logistic(tuple(float(weight) for weight in best[:-1]), float(best[-1]))


def _cut(others: Floats, limit: float) -> float:
    """Return the lowest threshold, to two places, with few enough false positives."""
    steps = np.arange(0.01, 1.0, 0.01)
    return float(next((s for s in steps if (others >= s).mean() <= limit), steps[-1]))


def _share(called: Bools) -> float | None:
    return float(called.mean()) if len(called) else None


def _rows(name: str) -> Iterator[dict[str, Any]]:
    with (DATA / name).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


class Data(NamedTuple):
    """All samples, as the two models see them."""

    followup: Sample
    dialogue: Sample
    iard: Sample
    own: Sample
    dialogue_pushback: Sample
    iard_pushback: Sample

    @classmethod
    def load(cls) -> Data:
        """Read and look at everything."""
        asked = [followup(), mtrag(), iard(), own()]
        seen = [Sample.of(pairs, rephrase_features(pairs)) for pairs in asked]
        pushed = [Sample.of(pairs, pushback_features(pairs)) for pairs in asked[1:3]]
        return cls(*seen, *pushed)


def _rephrase_table(data: Data) -> Table:
    table = _table(
        "Rephrases: recall / false positives",
        ("FollowUp", "MTRAG-UN follow-ups", "IARD", "own pairs", "AUROC FollowUp"),
    )
    table.add_row(
        "published: static cosine and containment at .6", ".82 / .08", "", ".06 /", "", ""
    )
    for half in (0, 1):
        samples = [s.in_half(half) for s in (data.followup, _follow_ups(data), data.iard)]
        shown = [*samples, data.own]
        scores = [containment(sample.pairs) for sample in shown]
        table.add_row(f"containment at .6, half {half}", *_cells(shown, scores, 0.6))
    for half in (0, 1):
        fit = fit_rephrase(data.followup.in_half(1 - half), data.dialogue.in_half(1 - half))
        samples = [s.in_half(half) for s in (data.followup, _follow_ups(data), data.iard)]
        shown = [*samples, data.own]
        name = f"fitted on half {1 - half}, half {half}, at {fit.threshold:.2f}"
        table.add_row(name, *_cells(shown, [s.scores(fit.model) for s in shown], fit.threshold))
    shown = [s.in_half(1) for s in (data.followup, _follow_ups(data), data.iard)] + [data.own]
    table.add_row(
        f"in the product, half 1, at {rephrase.THRESHOLD}",
        *_cells(shown, [s.scores(rephrase.MODEL) for s in shown], rephrase.THRESHOLD),
    )
    return table


def _pushback_table(data: Data) -> Table:
    table = _table(
        "Push-back: recall / false positives",
        ("MTRAG-UN", "balanced accuracy", "AUROC", "IARD reformulations"),
    )
    table.add_row("published: cue words", "", "", ".73", "")
    for half in (0, 1):
        sample, films = data.dialogue_pushback.in_half(half), data.iard_pushback.in_half(half)
        table.add_row(
            f"a few cue words, half {half}",
            *_pushback_cells(sample, cue_words(sample.pairs), films, cue_words(films.pairs), 1.0),
        )
    for half in (0, 1):
        fit = fit_pushback(data.dialogue_pushback.in_half(1 - half))
        sample, films = data.dialogue_pushback.in_half(half), data.iard_pushback.in_half(half)
        scores, film_scores = sample.scores(fit.model), films.scores(fit.model)
        table.add_row(
            f"fitted on half {1 - half}, half {half}, at {fit.threshold:.2f}",
            *_pushback_cells(sample, scores, films, film_scores, fit.threshold),
        )
    sample, films = data.dialogue_pushback.in_half(1), data.iard_pushback.in_half(1)
    scores, film_scores = sample.scores(pushback.MODEL), films.scores(pushback.MODEL)
    table.add_row(
        f"in the product, half 1, at {pushback.THRESHOLD}",
        *_pushback_cells(sample, scores, films, film_scores, pushback.THRESHOLD),
    )
    return table


def _follow_ups(data: Data) -> Sample:
    return data.dialogue.taken(~data.dialogue.positive)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title)
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _cells(samples: Sequence[Sample], scores: Sequence[Floats], threshold: float) -> list[str]:
    rates = [s.rates(found, threshold) for s, found in zip(samples, scores, strict=True)]
    return [*map(_both, rates), f"{auroc(scores[0], samples[0].positive):.3f}"]


def _pushback_cells(
    sample: Sample, scores: Floats, films: Sample, film_scores: Floats, threshold: float
) -> list[str]:
    rates = sample.rates(scores, threshold)
    return [
        _both(rates),
        f"{rates.balanced_accuracy:.3f}",
        f"{auroc(scores, sample.positive):.3f}",
        _both(films.rates(film_scores, threshold)),
    ]


def _both(rates: Rates) -> str:
    return " / ".join("–" if share is None else f"{share:.3f}" for share in rates)


def main() -> None:
    """Print the tables, or what the first half gives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fit", action="store_true", help="print the models of the first half")
    console = Console(width=150)
    data = Data.load()
    if parser.parse_args().fit:
        fits = {
            "rephrase": fit_rephrase(data.followup.in_half(0), data.dialogue.in_half(0)),
            "pushback": fit_pushback(data.dialogue_pushback.in_half(0)),
        }
        for name, fit in fits.items():
            weights = tuple(round(weight, 1) for weight in fit.model.weights)
            intercept = round(fit.model.intercept, 1)
            console.print(f"{name}: {weights} {intercept} at {fit.threshold:.2f}")
    else:
        console.print(_rephrase_table(data))
        console.print(_pushback_table(data))


if __name__ == "__main__":
    main()
