"""Commands that read: estimates, signals, the review, golden candidates."""

from __future__ import annotations

import getpass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from collector.config import Resolved
from collector.options import (
    ConfigOption,
    DataDirOption,
    DaySinceOption,
    JsonOption,
    SegmentOption,
    SinceOption,
    WeekOption,
    print_json,
    run_async,
    to_read,
    window_of,
)
from dashboards.windows import Window

review_app = typer.Typer(help="The weekly review of the worst conversations.", no_args_is_help=True)
golden_app = typer.Typer(help="Golden-set candidates from production.", no_args_is_help=True)


class ReportFormat(StrEnum):
    """How a report is printed."""

    md = "md"
    html = "html"
    json = "json"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(epilog="Example: groundwatch estimates --since 24h --segment lookup --json")(
        estimates
    )
    app.command(epilog="Example: groundwatch signals --since 7d --json")(signals)
    app.add_typer(review_app, name="review")
    app.add_typer(golden_app, name="golden")


def estimates(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: DaySinceOption = None,
    week: WeekOption = None,
    segment: SegmentOption = "",
    *,
    as_json: JsonOption = False,
) -> None:
    """Print faithfulness per segment, with interval, and the accounting behind it."""
    from collector.remote import report as ask
    from dashboards import terminal

    window = window_of("estimates", since, week)
    report = run_async(ask(to_read(config, data_dir), "estimates", window, segment=segment))
    if as_json:
        print_json(report)
    else:
        terminal.print_estimates(report, Console())
    if not report["accounting_ok"]:
        raise typer.Exit(1)


def signals(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: SinceOption = None,
    week: WeekOption = None,
    segment: SegmentOption = "",
    *,
    as_json: JsonOption = False,
) -> None:
    """Print what users said, sent or inferred, and how few of them said anything."""
    from collector.remote import report as ask
    from dashboards import terminal

    window = window_of("signals", since, week)
    found = run_async(ask(to_read(config, data_dir), "signals", window, segment=segment))
    if as_json:
        print_json(found)
    else:
        terminal.print_signals(found, Console())


@review_app.command("report", epilog="Example: groundwatch review report --week 2026-W48")
def review_report(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: SinceOption = None,
    week: WeekOption = None,
    segment: SegmentOption = "",
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many conversations.")] = 20,
    output: Annotated[ReportFormat, typer.Option("--format", help="Markdown, HTML or JSON.")] = (
        ReportFormat.md
    ),
    *,
    as_json: JsonOption = False,
) -> None:
    """Print the worst conversations, each once, with claims, evidence, signals and reasons."""
    from collector.remote import report as ask
    from dashboards.review.render import render

    window = window_of("review", since, week)
    read = to_read(config, data_dir)
    report = run_async(ask(read, "review", window, segment=segment, limit=limit))
    if as_json or output is ReportFormat.json:
        print_json(report["conversations"])
    else:
        print(render(report, output.value))


@golden_app.command("candidates", epilog="Example: groundwatch golden candidates --since 7d --json")
def golden_candidates(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: SinceOption = None,
    week: WeekOption = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
    *,
    as_json: JsonOption = False,
) -> None:
    """List questions from the worst conversations that could join the golden set."""
    from dashboards import terminal

    found = _candidates(to_read(config, data_dir), window_of("candidates", since, week), limit)
    if as_json:
        print_json(found)
    else:
        terminal.print_candidates(found, Console())


@golden_app.command("export", epilog="Example: groundwatch golden export golden.yaml --since 7d")
def golden_export(
    file: Annotated[Path, typer.Argument(help="Golden file; rows are added at its end.")],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: SinceOption = None,
    week: WeekOption = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
    *,
    accepted_only: Annotated[
        bool, typer.Option("--accepted-only", help="Only what people accepted in the review.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Add what people accepted, and unreviewed candidates as drafts, to a golden file.

    Questions it already has are left out, and so are those that people rejected or still edit.
    """
    from collector import remote
    from dashboards.candidate_states import FRESH
    from dashboards.candidates import golden_row, reviewed_row
    from sinks import golden_file

    read, window = to_read(config, data_dir), window_of("candidates", since, week)
    touched = [one for one in run_async(remote.reviewed(read)) if one.state != FRESH]
    accepted = [one for one in touched if one.state == "accepted"]
    seen = {one.candidate_id for one in touched}
    drafts = [] if accepted_only else _candidates(read, window, limit)
    rows = [
        *(reviewed_row(one) for one in accepted),
        *(golden_row(draft) for draft in drafts if draft["id"] not in seen),
    ]
    result = golden_file.append(file, rows)
    added = {row.id for row in result.added}
    exported = [one for one in accepted if one.candidate_id in added]
    if exported:
        run_async(remote.tell_exported(read, exported, getpass.getuser(), file.name))
    if as_json:
        print_json(
            {
                "added": [row.id for row in result.added],
                "already_there": {one.row.id: one.same_as for one in result.duplicates},
            }
        )
    elif not rows:
        print(f"{file}: no candidates in this window")
    elif not result.added:
        print(f"{file}: nothing to add, all {len(rows)} candidates are there already")
    else:
        drafted = len(result.added) - len(exported)
        print(
            f"{file}: {len(exported)} accepted added, {drafted} unreviewed added as drafts, "
            f"{len(result.duplicates)} already there"
        )


def _candidates(resolved: Resolved, window: Window, limit: int) -> list[dict[str, Any]]:
    from collector.remote import report as ask

    report = run_async(ask(resolved, "candidates", window, limit=limit))
    found: list[dict[str, Any]] = report["candidates"]
    return found
