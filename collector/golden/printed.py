"""Findings and coverage on a terminal. What comes from others is shown as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.golden.coverage import Coverage, Drift
from collector.golden.lint import Finding
from collector.plain import plain

_SHOWN_MIXES = 15


def findings(file: Path, found: Sequence[Finding]) -> None:
    """Print one line a finding, as compilers do, and the sum."""
    for one in found:
        where = f"{file}:{one.line}: {one.row_id}" if one.line is not None else f"{file}"
        print(plain(f"{where}: {one.level}: {one.message} [{one.check}]"))
    errors = sum(one.level == "error" for one in found)
    print(f"{errors} errors, {len(found) - errors} warnings")


def coverage(found: Coverage, console: Console) -> None:
    """Print both mixes, the questions that nothing covers, and whether the set is stale."""
    for name, drift in (("segment", found.segments), ("page", found.topics)):
        _drift(name, drift, console)
    if found.uncovered:
        table = _table("no golden question covers", "segment", "requests", "nearest")
        for one in found.uncovered:
            nearest = f"{one.nearest} ({one.similarity:.2f})" if one.nearest else "none"
            table.add_row(
                _text(one.question), _text(one.segment), str(one.requests), _text(nearest)
            )
        console.print(table)
        if (more := found.uncovered_questions - len(found.uncovered)) > 0:
            _say(console, f"and {more} more questions")
    covered = "unknown" if found.covered is None else f"{found.covered:.0%}"
    _say(
        console,
        f"{found.rows} golden questions cover {covered} of {found.compared} requests compared "
        f"({found.requests} in all)",
    )
    for reason in found.stale:
        _say(console, f"stale: {reason}")
    if not found.stale:
        _say(console, "not stale")


def _drift(name: str, drift: Drift, console: Console) -> None:
    table = _table(
        name, "golden", "of it synthetic", "share of set", "requests", "share of traffic"
    )
    for one in drift.mixes[:_SHOWN_MIXES]:
        table.add_row(
            _text(one.name),
            f"{one.golden:g}",
            str(one.synthetic or ""),
            f"{one.golden_share:.0%}",
            f"{one.requests:.0f}",
            f"{one.live_share:.0%}",
        )
    console.print(table)
    if (more := len(drift.mixes) - _SHOWN_MIXES) > 0:
        _say(console, f"and {more} more")
    _say(console, f"drift {drift.distance:.2f}; chance alone gives up to {drift.by_chance:.2f}")
    console.print()


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (first, *others):
        table.add_column(name, overflow="fold")
    return table


def _text(text: str) -> Text:
    return Text(plain(text))


def _say(console: Console, line: str) -> None:
    console.print(_text(line), soft_wrap=True)
