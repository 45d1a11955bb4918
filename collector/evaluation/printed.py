"""Reports, comparisons and decisions on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.evaluation.catalogue import full_name
from collector.evaluation.compare import Compared, Comparison
from collector.evaluation.gate import Decision
from collector.evaluation.kept import KeptRun
from collector.plain import plain

Data = Mapping[str, Any]
_SEGMENT_COLUMNS = ("recall", "mrr", "faithfulness", "correctness", "refusal", "wrong_refusal")


def report(found: Data, console: Console) -> None:
    """Print every measure over all questions, then the main ones by segment."""
    whole, *segments = found["groups"]
    table = _table("measure", ("mean", "95 % interval", "n", "undefined", "failed"))
    for name, one in whole["measures"].items():
        table.add_row(
            name,
            value(one["mean"]),
            interval(one["low"], one["high"]),
            str(one["n"]),
            str(sum(one["undefined"].values()) or ""),
            str(sum(one["failed"].values()) or ""),
        )
    console.print(table)
    if len(segments) > 1:
        names = [name for name in whole["measures"] if name.partition("@")[0] in _SEGMENT_COLUMNS]
        by_segment = _table(
            found["segment_by"], ("questions", *(name.replace("_", "\n") for name in names))
        )
        for group in segments:
            cells = (value(group["measures"][name]["mean"]) for name in names)
            by_segment.add_row(_shown(group["segment"]), str(group["questions"]), *cells)
        console.print()
        console.print(by_segment)
    for line in _words(found, whole):
        _say(console, line, "dim")


def _words(found: Data, whole: Data) -> list[str]:
    lines = []
    if whole["diagnoses"]:
        lines.append(f"findings: {_counts(whole['diagnoses'])}")
    if found["unanswered"]:
        missing = sum(found["unanswered"].values())
        lines.append(
            f"no answer to {missing} of {found['questions']} questions: "
            f"{_counts(found['unanswered'])}"
        )
    failed: dict[str, list[str]] = {}
    for name, one in whole["measures"].items():
        if one["failed"]:
            failed.setdefault(_counts(one["failed"]), []).append(name)
    lines += [f"{', '.join(names)} failed: {causes}" for causes, names in failed.items()]
    if found["judge"]:
        lines.append(
            f"judge {found['judge']}: trust differences more than levels; "
            "`groundwatch calibration` says how far it agrees with people"
        )
    if found["judge"] and found["judge"].startswith("lexical"):
        lines.append("correctness is a stand-in that compares words, not meaning")
    if found["judge_cost_usd"] is not None:
        lines.append(f"judging cost {found['judge_cost_usd']:.4f} USD")
    if whole["questions"]:
        lines.append(
            f"{whole['questions']} questions show a share to ±{100 * whole['half_width']:.0f} "
            "points at worst"
        )
    return lines


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items())


_LISTED = ("recall", "faithfulness", "correctness")


def runs(found: Sequence[KeptRun], console: Console) -> None:
    """Print one line a run, with its main means."""
    names = [full_name(name, one.k) for one in found[-1:] for name in _LISTED]
    table = _table("run", ("begun", "questions", *names))
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for one in found:
        table.add_row(
            _shown(one.run),
            f"{one.started_at:%m-%d %H:%M}" if one.started_at else "",
            one.state if one.questions is None else str(one.questions),
            *(value(one.means.get(name)) for name in names),
        )
    console.print(table)


def compared(found: Compared, console: Console) -> None:
    """Print the comparison of every measure, then the segments that differ."""
    console.print(_comparisons(found.overall, "measure"))
    telling = [one for one in found.segments if one.verdict in ("better", "worse")]
    if telling:
        console.print()
        console.print(_comparisons(telling, "measure in segment"))
    elif found.segments:
        console.print("no segment differs beyond chance", style="dim")
    for note in (_NOT_SHOWN_MEANS, *found.notes):
        _say(console, note, "dim")


_NOT_SHOWN = "not shown"
_NOT_SHOWN_MEANS = (
    "not shown: no difference that could be shown; `would show` is the smallest change that these "
    "questions show four times in five"
)


def _comparisons(rows: Sequence[Comparison], title: str) -> Table:
    names = ("old", "new", "change", "95 % interval", "n", "p", "would\nshow", "verdict")
    table = _table(title, names)
    for one in rows:
        table.add_row(
            _shown(one.measure if title == "measure" else f"{one.measure} in {one.segment}"),
            value(one.old),
            value(one.new),
            value(one.difference, sign="+"),
            interval(one.low, one.high),
            str(one.n),
            f"{one.p_adjusted:.3f}",
            value(one.detectable),
            one.verdict if one.verdict in ("better", "worse", "too few") else _NOT_SHOWN,
        )
    return table


def decision(found: Decision, console: Console) -> None:
    """Print what the gate says and why, then what it could not exclude."""
    console.print("passed" if found.passed else "blocked", style="bold")
    for reason in found.blocked:
        _say(console, f"  {reason}")
    for warning in found.warnings:
        _say(console, f"  warning: {warning}", "dim")
    for one in found.compared.overall:
        if one.measure in ("latency_ms", "cost_usd") and one.verdict in ("better", "worse"):
            change = f"{one.measure} went from {value(one.old)} to {value(one.new)}"
            _say(console, f"  beside it: {change}")


def _say(console: Console, line: str, style: str = "") -> None:
    """Print a line that may be longer than the terminal is wide."""
    indent = line[: len(line) - len(line.lstrip())]
    console.print(Text(indent + plain(line)), style=style, soft_wrap=True)


def _shown(text: str) -> Text:
    return Text(plain(text))


def _table(first: str, rest: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in rest:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def value(number: float | None, sign: str = "") -> str:
    """Return a number as people read it, nothing for None; `sign` is that of a format."""
    if number is None:
        return ""
    return f"{number:{sign}.3f}" if abs(number) < 10 else f"{number:{sign}.0f}"


def interval(low: float | None, high: float | None) -> str:
    """Return both ends of an interval, nothing where there is none."""
    if low is None or high is None:
        return ""
    return f"{value(low)}…{value(high)}"
