"""Commands that read: estimates, signals, the review."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from collector.config import load
from collector.errors import UsageError
from collector.model import FAITHFULNESS
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
from collector.plain import plain

_SHORTEST_PASSWORD = 10

review_app = typer.Typer(help="The weekly review of the worst conversations.", no_args_is_help=True)


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


def estimates(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: DaySinceOption = None,
    week: WeekOption = None,
    segment: SegmentOption = "",
    scorer: Annotated[
        str, typer.Option(help="Of judge.scorers, or second_judge, in place of faithfulness.")
    ] = FAITHFULNESS,
    *,
    as_json: JsonOption = False,
) -> None:
    """Print faithfulness per segment, with interval, and the accounting behind it."""
    from collector.remote import report as ask
    from dashboards import terminal

    window = window_of("estimates", since, week)
    asked = {"segment": segment, "scorer": scorer}
    report = run_async(ask(to_read(config, data_dir), "estimates", window, **asked))
    if as_json:
        print_json(report)
    else:
        terminal.print_estimates(report, Console())
    _say_if_nowhere(segment, report["total"]["requests"])
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
    _say_if_nowhere(segment, found["total"]["requests"])


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
    _say_if_nowhere(segment, report["conversations"])


def _say_if_nowhere(segment: str, found: object) -> None:
    """A name that is misspelt looks like a segment without traffic."""
    if segment and not found:
        told = f"nothing of segment {plain(segment)!r} in this window"
        print(f"{told}; without --segment you see which there are", file=sys.stderr)


@review_app.command("handover", epilog="Example: groundwatch review handover -c groundwatch.yaml")
def review_handover(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    week: WeekOption = None,
    *,
    send: Annotated[
        bool, typer.Option("--send", help="Send it now, to see whether it arrives.")
    ] = False,
) -> None:
    """Print the hand-over of the week that ended last, or of another one, or send it."""
    from collector.remote import handover as ask
    from dashboards.review.handover import senders_of, week_before

    name = week or week_before(datetime.now(UTC).date())
    window = window_of("review", None, name)
    resolved = load(config) if send else to_read(config, data_dir)
    senders = senders_of(resolved)
    if send and not senders:
        raise UsageError(["review.handover: nobody receives it; set webhook_url_env or mail"])
    message = run_async(ask(resolved, name, window))
    if not send:
        print(message.text)
    for receiver, deliver in senders.items() if send else ():
        run_async(deliver(message))
        print(f"sent: {receiver}")


@review_app.command("password", epilog="Example: groundwatch review password")
def review_password() -> None:
    """Ask for a password and print its hash, to be put under review.users."""
    from dashboards.review.login import password_hash

    if sys.stdin.isatty():
        given = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if len(given) < _SHORTEST_PASSWORD:
        raise UsageError([f"password: must have at least {_SHORTEST_PASSWORD} characters"])
    print(password_hash(given))
