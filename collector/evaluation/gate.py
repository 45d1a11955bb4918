"""The release gate: may the new version replace the old one?

It blocks what is shown, not what is suspected:

- a drop as large as the margin, over all questions or in a segment, beyond chance;
- a floor that the new version is below beyond chance;
- a segment that sank from above its floor to below it, with a drop that is not chance.

Chance is one in twenty for the first and for the second and one in forty for the third, however
many measures and segments there are. Of the first, half is spent on all questions and half on
segments, so that more segments do not blunt the overall test (Holm in both). Segments of fewer than
20 questions are reported and block nothing.

What could not be excluded is a warning: "no drop shown" is never "no drop".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from collector.config import GateConfig
from collector.errors import UsageError
from collector.evaluation.catalogue import catalogue, full_name
from collector.evaluation.compare import Compared, Comparison, compare, is_binary
from collector.evaluation.folder import FinishedRun
from collector.evaluation.report import ALL, FEW, by_segment, defined
from collector.model_evaluation import EvalRow
from scorers.stats.planning import below_floor, holm, mean_below_floor

_CHANCE = 0.05


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate says: blocked where `blocked` holds a reason; `warnings` block nothing."""

    blocked: list[str]
    warnings: list[str]
    compared: Compared

    @property
    def passed(self) -> bool:
        """Whether the new version may be released."""
        return not self.blocked


def decide(old: FinishedRun, new: FinishedRun, config: GateConfig) -> Decision:
    """Decide on a new version, given a run of it and one of the version it replaces.

    Raises:
        UsageError: the runs cannot be compared, or the config names an unknown measure.
    """
    _check(old, new, config)
    compared = compare(old, new)
    if not compared.overall:
        raise UsageError(["the runs have nothing to compare", *compared.notes])
    names = {full_name(name, new.run.k) for name in config.measures}
    overall = [one for one in compared.overall if one.measure in names]
    segments = [one for one in compared.segments if one.measure in names]
    drops = [*_drops(overall, config.margin), *_drops(segments, config.margin)]
    floors = _floors(new, config, compared.segments)
    measured = {one.measure for one in overall}
    missing = [f"{name}: not measured in both runs" for name in sorted(names - measured)]
    return Decision(
        blocked=[*drops, *floors.blocked],
        warnings=[
            *floors.warnings,
            *_not_excluded(overall, config.margin),
            *missing,
            *compared.notes,
        ],
        compared=compared,
    )


def _check(old: FinishedRun, new: FinishedRun, config: GateConfig) -> None:
    problems = []
    if old.run.tier != new.run.tier:
        problems.append(f"the runs are of the tiers {old.run.tier} and {new.run.tier}")
    if old.run.k != new.run.k:
        problems.append(f"the runs have k = {old.run.k} and {new.run.k}; run one of them again")
    scores = [one for one in catalogue(new.run.k) if one.unit == "score"]
    for key, named, fit in (
        ("measures", config.measures, {one.name for one in scores}),
        ("floors", config.floors, {one.name for one in scores if one.more_is_better}),
    ):
        problems += [
            f"evaluation.gate.{key}: {name} is none of {', '.join(sorted(fit))}"
            for name in named
            if full_name(name, new.run.k) not in fit
        ]
    if not old.rows.keys() & new.rows.keys():
        problems.append("the runs share no question: make both on the same golden set")
    if problems:
        raise UsageError(problems)


# --- Drops -----------------------------------------------------------------------------------


def _drops(family: Sequence[Comparison], margin: float) -> Iterable[str]:
    """Name the measures of a family that dropped by the margin or more, beyond chance."""
    tested = [one for one in family if one.n >= FEW]
    for one, p in zip(tested, holm([one.p_worse for one in tested]), strict=True):
        change = one.difference or 0.0
        drop = -change if one.more_is_better else change
        if p < _CHANCE / 2 and drop >= margin:
            where = "" if one.segment == ALL else f" in {one.segment}"
            yield (
                f"{one.measure}{where} went from {one.old:.3f} to {one.new:.3f} "
                f"on {one.n} questions (p {p:.4f}, margin {margin:g})"
            )


def _not_excluded(overall: Sequence[Comparison], margin: float) -> Iterable[str]:
    """Name the measures whose interval leaves room for a drop beyond the margin."""
    for one in overall:
        end = one.low if one.more_is_better else one.high
        room = 0.0 if end is None else -end if one.more_is_better else end
        if one.n < FEW:
            yield f"{one.measure}: {one.n} questions are too few to show anything"
        elif room > margin:
            yield (
                f"{one.measure}: a drop of up to {room:.3f} cannot be excluded "
                f"with {one.n} questions"
            )


# --- Floors ----------------------------------------------------------------------------------


class _Floors(NamedTuple):
    blocked: list[str]
    warnings: list[str]


class _Slice(NamedTuple):
    """The scores of one measure in all questions or one segment, and their floor."""

    measure: str
    segment: str
    scores: list[float]
    floor: float

    @property
    def place(self) -> tuple[str, str]:
        return self.measure, self.segment

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)


def _floors(new: FinishedRun, config: GateConfig, segments: Sequence[Comparison]) -> _Floors:
    slices = [one for one in _slices(new, config) if one.scores]
    tested = [one for one in slices if len(one.scores) >= FEW]
    below = _below(tested)
    sunk = _sunk([one for one in tested if one.mean < one.floor], segments)
    found = _Floors([], [])
    for one in slices:
        if one.mean >= one.floor:
            continue
        where = "" if one.segment == ALL else f" in {one.segment}"
        text = (
            f"{one.measure}{where} is {one.mean:.3f} on {len(one.scores)} questions, "
            f"below its floor of {one.floor:g}"
        )
        if one.place in below:
            found.blocked.append(text)
        elif one.place in sunk:
            found.blocked.append(f"{text}, and was {sunk[one.place]:.3f}")
        else:
            found.warnings.append(f"{text}, but that may be chance")
    return found


def _slices(new: FinishedRun, config: GateConfig) -> Iterable[_Slice]:
    segments = by_segment(new.rows.values())
    real: list[EvalRow] = [row for rows in segments.values() for row in rows]
    for name, floor in config.floors.items():
        measure = full_name(name, new.run.k)
        yield _Slice(measure, ALL, defined(measure, real), floor)
        for segment, rows in segments.items():
            yield _Slice(measure, segment, defined(measure, rows), config.segment_floor)


def _below(tested: Sequence[_Slice]) -> set[tuple[str, str]]:
    """Return measure and segment of the slices that are below their floor beyond chance.

    Right-or-wrong scores by the exact binomial test, adjusted by Holm; others by the interval.
    """
    p_values = [
        below_floor(round(sum(one.scores)), len(one.scores), one.floor)
        if is_binary(one.scores)
        else 0.0
        if mean_below_floor(one.scores, one.floor, len(tested))
        else 1.0
        for one in tested
    ]
    return {one.place for one, p in zip(tested, holm(p_values), strict=True) if p < _CHANCE}


def _sunk(low: Sequence[_Slice], segments: Sequence[Comparison]) -> dict[tuple[str, str], float]:
    """Return the old means of the segments that sank below their floor, by measure and segment.

    Only segments that are below their floor now are candidates, so only these share the chance.
    """
    floors = {one.place: one.floor for one in low}
    candidates = [one for one in segments if (one.measure, one.segment) in floors]
    p_values = holm([one.p_worse for one in candidates])
    return {
        (one.measure, one.segment): one.old
        for one, p in zip(candidates, p_values, strict=True)
        if p < _CHANCE / 2 and one.old is not None and one.old >= floors[one.measure, one.segment]
    }
