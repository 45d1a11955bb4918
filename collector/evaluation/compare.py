"""Two runs on the same questions: which is better, where, and could we have seen it?

Each question is its own control. Right-or-wrong measures are compared by the exact McNemar test
with Bonett and Price's interval, scores in between by sign flips with Student's interval, times
and money by Student alone. Each measure is a question of its own and has its own one-in-twenty
chance of a false answer; whoever looks through the segments of a measure finds a difference in
some by chance, so their p-values are adjusted for each other (Holm).

A question that one version failed on counts as the worst score there; one that failed in both, or
for which the measure is undefined in either, is left out and counted. So is an answer that the
judge failed on: that says nothing about the version.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from collector.evaluation.catalogue import Measure, catalogue
from collector.evaluation.folder import FinishedRun
from collector.evaluation.report import ALL, FEW
from collector.model_evaluation import EvalRow
from scorers.stats.intervals import Z95
from scorers.stats.paired import (
    BCA_FROM,
    bca_interval,
    bonett_price,
    exact_mcnemar,
    paired_t,
    sign_flip,
)
from scorers.stats.planning import holm, minimum_detectable_difference

Verdict = Literal["better", "worse", "no difference that could be shown", "too few"]

SIGNIFICANT = 0.05
_JUDGED = frozenset({"faithfulness", "correctness", "answer_relevance"})
_Z80 = 0.8416212335729143
"""80 % quantile of the standard normal distribution: the power of `detectable`."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of two runs, over all questions or over one segment.

    Attributes:
        n: questions compared; `changed` those whose value differs.
        old: mean of the old run over these, `new` of the new one.
        difference: new - old, with its 95 % interval `low` to `high`, None where there is none.
        bootstrap: BCa interval beside it where enough values differ.
        p_value: two-sided; `p_adjusted` for the other segments of the measure; `p_worse` one-sided,
            "the new one is worse".
        failed_old: questions with a failure in the old run only, `failed_new` in the new only.
        left_out: questions undefined in either run, failed in both, or that the judge failed on.
        detectable: smallest difference that would show with a chance of 80 %.
    """

    measure: str
    more_is_better: bool
    segment: str
    n: int
    changed: int
    old: float | None
    new: float | None
    difference: float | None
    low: float | None
    high: float | None
    bootstrap: tuple[float, float] | None
    p_value: float
    p_worse: float
    p_adjusted: float
    failed_old: int
    failed_new: int
    left_out: int
    detectable: float | None
    verdict: Verdict


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs compared: `overall` by measure, `segments` by measure and segment.

    `notes` say in words what could not be compared and why.
    """

    old: str
    new: str
    overall: list[Comparison]
    segments: list[Comparison]
    notes: list[str]


def compare(old: FinishedRun, new: FinishedRun) -> Compared:
    """Compare a new run with an old one; see the module docstring."""
    rows, notes = _shared(old, new)
    if old.run.k != new.run.k:
        notes.append(f"recall and precision are left out: k is {old.run.k} and {new.run.k}")
    measures = [one for one in catalogue(new.run.k) if _comparable(one.name, old, new, notes)]
    overall: list[Comparison] = []
    segments: list[Comparison] = []
    for measure in measures:
        whole = compare_rows(measure, ALL, rows)
        if not whole.n:
            continue
        overall += adjusted([whole])
        names = sorted({pair.new.segment for pair in rows})
        parts = [
            compare_rows(measure, name, [pair for pair in rows if pair.new.segment == name])
            for name in (names if len(names) > 1 else [])
        ]
        segments += adjusted([part for part in parts if part.n])
    notes += _unjudged(rows)
    return Compared(
        old=old.run.run_id,
        new=new.run.run_id,
        overall=overall,
        segments=segments,
        notes=notes,
    )


class Pair(NamedTuple):
    """One question in both runs."""

    old: EvalRow
    new: EvalRow


def _shared(old: FinishedRun, new: FinishedRun) -> tuple[list[Pair], list[str]]:
    """Return the questions asked in both runs, real ones only, and what to say of the others."""
    ids = sorted(old.rows.keys() & new.rows.keys())
    same = [id_ for id_ in ids if _asks_the_same(old.rows[id_], new.rows[id_])]
    pairs = [Pair(old.rows[id_], new.rows[id_]) for id_ in same]
    real = [pair for pair in pairs if not pair.new.synthetic]
    notes = []
    if alone := len(old.rows) + len(new.rows) - 2 * len(ids):
        notes.append(f"{alone} questions are in one of the runs only and are left out")
    if changed := len(ids) - len(same):
        notes.append(
            f"{changed} questions were reworded or labelled anew between the runs and are left out"
        )
    if synthetic := len(pairs) - len(real):
        notes.append(f"{synthetic} synthetic questions are left out")
    return real, notes


def _unjudged(pairs: Sequence[Pair]) -> Iterable[str]:
    """Name the measures that the judge could not say of answers that are there."""
    for name in sorted(_JUDGED):
        failed = [
            any(name in row.failures and not _failed(name, row) for row in pair) for pair in pairs
        ]
        if any(failed):
            yield (
                f"{name}: {sum(failed)} questions are left out, as the judge failed on them; "
                "--resume judges them again"
            )


def _asks_the_same(old: EvalRow, new: EvalRow) -> bool:
    """Whether two rows have one question, and the same things would be right in both."""
    return old.question == new.question and (
        old.labels == new.labels or not (old.labels and new.labels)
    )


def _comparable(name: str, old: FinishedRun, new: FinishedRun, notes: list[str]) -> bool:
    if name in _JUDGED and old.run.fingerprint != new.run.fingerprint:
        notes.append(
            f"{name} is left out: the runs were judged by "
            f"{old.run.fingerprint or 'nobody'} and {new.run.fingerprint or 'nobody'}"
        )
        return False
    return True


def compare_rows(measure: Measure, segment: str, pairs: Sequence[Pair]) -> Comparison:
    """Compare one measure on some questions; `p_adjusted` is not adjusted yet."""
    matched = _matched(measure, pairs)
    before, after = np.array(matched.old), np.array(matched.new)
    change = after - before
    n, changed = len(change), int(np.count_nonzero(change))
    test = _test(measure, before, after)
    wide = measure.unit == "score" and changed >= BCA_FROM
    bootstrap = bca_interval(change.tolist()) if wide else None
    return Comparison(
        measure=measure.name,
        more_is_better=measure.more_is_better,
        segment=segment,
        n=n,
        changed=changed,
        old=float(before.mean()) if n else None,
        new=float(after.mean()) if n else None,
        difference=float(change.mean()) if n else None,
        low=test.low,
        high=test.high,
        bootstrap=None if bootstrap is None else (bootstrap.low, bootstrap.high),
        p_value=test.p_value,
        p_worse=test.p_worse,
        p_adjusted=test.p_value,
        failed_old=matched.failed_old,
        failed_new=matched.failed_new,
        left_out=len(pairs) - n,
        detectable=_detectable(measure, before, after),
        verdict="too few",
    )


def adjusted(family: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons with p-values adjusted for each other, and their verdicts.

    Those with too few questions are not tested, so they do not make it harder for the others.
    """
    tested = [one for one in family if one.n >= FEW]
    p_values = holm([one.p_value for one in tested])
    return [
        *(
            msgspec.structs.replace(one, p_adjusted=p, verdict=_verdict(one, p))
            for one, p in zip(tested, p_values, strict=True)
        ),
        *(one for one in family if one.n < FEW),
    ]


def _verdict(one: Comparison, p_adjusted: float) -> Verdict:
    if p_adjusted >= SIGNIFICANT:
        return "no difference that could be shown"
    return "worse" if one.p_worse < 0.5 else "better"


class _Matched(NamedTuple):
    old: list[float]
    new: list[float]
    failed_old: int
    failed_new: int


def _matched(measure: Measure, pairs: Iterable[Pair]) -> _Matched:
    """Match the values of both runs; a failure on one side only is the worst score there."""
    name = measure.name
    worst = 0.0 if measure.more_is_better else 1.0
    before: list[float] = []
    after: list[float] = []
    failed_old = failed_new = 0
    for old, new in pairs:
        values = (old.measures.get(name), new.measures.get(name))
        failed = (_failed(name, old), _failed(name, new))
        if measure.unit == "score" and failed == (True, False) and values[1] is not None:
            values, failed_old = (worst, values[1]), failed_old + 1
        if measure.unit == "score" and failed == (False, True) and values[0] is not None:
            values, failed_new = (values[0], worst), failed_new + 1
        if values[0] is not None and values[1] is not None:
            before.append(values[0])
            after.append(values[1])
    return _Matched(before, after, failed_old, failed_new)


def _failed(measure: str, row: EvalRow) -> bool:
    """Whether the version failed on a measure; where it answered, a judged one is the judge's."""
    return measure in row.failures and not (measure in _JUDGED and row.error is None)


class _Test(NamedTuple):
    low: float | None
    high: float | None
    p_value: float
    p_worse: float


_Values = np.ndarray[tuple[int], np.dtype[np.float64]]


def _test(measure: Measure, before: _Values, after: _Values) -> _Test:
    change = after - before
    if measure.unit != "score":
        return _student(change)
    if is_binary(before) and is_binary(after):
        fell, rose = int((change < 0).sum()), int((change > 0).sum())
        worse, better = (fell, rose) if measure.more_is_better else (rose, fell)
        found = exact_mcnemar(worse, better)
        low, high = bonett_price(fell, rose, len(change))
        return _Test(low, high, found.p_value, found.p_worse)
    interval = paired_t(change.tolist())
    flips = sign_flip((change if measure.more_is_better else -change).tolist())
    if interval is None:
        return _Test(None, None, flips.p_value, flips.p_worse)
    return _Test(interval.low, interval.high, flips.p_value, flips.p_worse)


def _student(change: _Values) -> _Test:
    """Compare times, tokens or money, of which more is worse."""
    interval = paired_t(change.tolist()) if change.any() else None
    if interval is None:
        return _Test(None, None, 1.0, 1.0)
    half = interval.p_value / 2
    worse = half if interval.mean > 0 else 1 - half
    return _Test(interval.low, interval.high, interval.p_value, worse)


def is_binary(scores: Iterable[float]) -> bool:
    """Say whether all scores are right or wrong, nothing in between."""
    return all(score in (0.0, 1.0) for score in scores)


def _detectable(measure: Measure, before: _Values, after: _Values) -> float | None:
    """Return the smallest difference that these questions would show with a chance of 80 %."""
    change = after - before
    n = len(change)
    if n < FEW:
        return None
    if measure.unit == "score" and is_binary(before) and is_binary(after):
        share = (int(np.count_nonzero(change)) + 1) / (n + 1)  # none changed is not never
        return minimum_detectable_difference(n, share)
    spread = float(change.std(ddof=1))
    return (Z95 + _Z80) * spread / math.sqrt(n) if spread else None
