"""The command line.

Exit codes: 0 fine, 1 a check says no, 2 wrong usage or config, 3 a dependency is down.
The heavy parts (stores, servers, clients) are imported by the commands that need them, so that
help, config checks and extraction start at once.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import msgspec
import structlog
import typer
from rich.console import Console

from collector.config import Resolved, load
from collector.errors import ConfigError, DependencyError, GroundwatchError, MalformedPayload
from collector.model import NotARequest
from collector.telemetry import configure_logging
from dashboards.windows import Window, last, week

if TYPE_CHECKING:
    from collector.app import Urls

app = typer.Typer(
    name="groundwatch",
    help="Watches a RAG assistant: judges its answers claim by claim, exports honest numbers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
review_app = typer.Typer(help="The weekly review of the worst conversations.", no_args_is_help=True)
golden_app = typer.Typer(help="Golden-set candidates from production.", no_args_is_help=True)
app.add_typer(review_app, name="review")
app.add_typer(golden_app, name="golden")

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file; without one all defaults hold.")
]
TraceFiles = Annotated[
    list[Path],
    typer.Argument(
        help="Files of traces or logs: OTLP, Langfuse, Jaeger.",
        exists=True,
        dir_okay=False,
        readable=True,
    ),
]
LogFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--logs", help="OTLP log files beside them.", exists=True, dir_okay=False, readable=True
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SinceOption = Annotated[str, typer.Option(help="Span of time that ends now: 90m, 24h, 7d, 2w.")]
WeekOption = Annotated[str | None, typer.Option(help="An ISO week instead, such as 2026-W48.")]
SegmentOption = Annotated[str, typer.Option(help="Only this segment.")]


class ReportFormat(StrEnum):
    """How a report is printed."""

    md = "md"
    html = "html"
    json = "json"


@app.command(epilog="Example: groundwatch demo --once --json")
def demo(
    *,
    once: Annotated[bool, typer.Option(help="Stop when all is judged.")] = False,
    as_json: JsonOption = False,
    data_dir: Annotated[Path, typer.Option(help="Where its data is kept.")] = Path(
        "groundwatch-demo"
    ),
) -> None:
    """Watch a small RAG assistant with planted failures on this machine. Needs nothing else."""
    configure_logging("warning")
    summary = _run(_demo(data_dir, Console(quiet=as_json), once=once))
    if summary is None:  # stopped before there was anything to sum up
        return
    if as_json:
        _print_json(summary)
    if not summary["accounting_ok"]:
        raise typer.Exit(1)


@app.command(epilog="Example: groundwatch run -c groundwatch.yaml")
def run(config: ConfigOption = None) -> None:
    """Run the agent until it is told to stop."""
    resolved = load(config)
    configure_logging(resolved.config.log_level)
    _run(_serve(resolved))


@app.command("check-config", epilog="Example: groundwatch check-config -c groundwatch.yaml")
def check_config(config: ConfigOption = None) -> None:
    """Check the configuration and print it resolved, secrets masked."""
    _print_json(load(config).model_dump(mode="json"))


@app.command(epilog="Example: groundwatch migrate -c groundwatch.yaml --dry-run")
def migrate(
    config: ConfigOption = None,
    *,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be applied.")] = False,
) -> None:
    """Bring the store's tables up to date."""
    from collector.app import migrate_store

    applied = _run(migrate_store(load(config).config, dry_run=dry_run))
    for name in applied:
        print(f"{'would apply' if dry_run else 'applied'} {name}")
    if not applied:
        print("up to date")


@app.command(epilog="Example: groundwatch extract trace.json --logs logs.json")
def extract(files: TraceFiles, logs: LogFiles = None) -> None:
    """Print the requests found in trace files, as JSON, in order of start time."""
    from collector import trace_files
    from collector.extract import extract as extract_request

    requests = []
    for trace in trace_files.read(files, logs or []):
        request = extract_request(trace)
        if not isinstance(request, NotARequest):
            requests.append(request)
    print(msgspec.json.format(msgspec.json.encode(requests), indent=1).decode())


@app.command(epilog="Example: groundwatch doctor trace.json, or: groundwatch doctor --live")
def doctor(
    files: TraceFiles = [],  # noqa: B006 - typer reads it only
    logs: LogFiles = None,
    config: ConfigOption = None,
    since: SinceOption = "24h",
    *,
    live: Annotated[bool, typer.Option("--live", help="Look at what the agent stored.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what traces lack for being monitored, how often, and the setting that cures it."""
    from collector.doctor import diagnose_files, lines
    from collector.remote import report as ask

    if bool(files) == live:
        raise typer.BadParameter("give trace files, or --live for what the agent stored")
    found = (
        _run(ask(load(config), "doctor", _window(since, None)))
        if live
        else diagnose_files(files, logs or [])
    )
    if as_json:
        _print_json(found)
    else:
        print("\n".join(lines(found)))
    if not found["ok"]:
        raise typer.Exit(1)


@app.command(epilog="Example: groundwatch send trace.json --endpoint http://127.0.0.1:4318")
def send(
    files: TraceFiles,
    endpoint: Annotated[str, typer.Option(help="OTLP/HTTP address of the agent.")] = (
        "http://127.0.0.1:4318"
    ),
    *,
    as_json: JsonOption = False,
) -> None:
    """Send trace files to an agent, waiting when it says so. Unreadable files are named."""
    from collector.remote import send_files

    result = _run(send_files(files, endpoint, Console(stderr=True)))
    if as_json:
        _print_json(result)
    else:
        print(f"sent {result['sent']} bodies from {result['files']} files")
    for problem in result["problems"]:
        print(problem, file=sys.stderr)
    if result["problems"]:
        raise typer.Exit(1)


@app.command(epilog="Example: groundwatch estimates --since 24h --segment lookup --json")
def estimates(
    config: ConfigOption = None,
    since: SinceOption = "24h",
    segment: SegmentOption = "",
    *,
    as_json: JsonOption = False,
) -> None:
    """Print faithfulness per segment, with interval, and the accounting behind it."""
    from collector.remote import report as ask
    from dashboards import terminal

    window = _window(since, None)
    report = _run(ask(load(config), "estimates", window, segment=segment))
    if as_json:
        _print_json(report)
    else:
        terminal.print_estimates(report, Console())
    if not report["accounting_ok"]:
        raise typer.Exit(1)


@app.command(epilog="Example: groundwatch signals --since 7d --json")
def signals(
    config: ConfigOption = None,
    since: SinceOption = "7d",
    segment: SegmentOption = "",
    *,
    as_json: JsonOption = False,
) -> None:
    """Print what users said, sent or inferred, and how few of them said anything."""
    from collector.remote import report as ask
    from dashboards import terminal

    found = _run(ask(load(config), "signals", _window(since, None), segment=segment))
    if as_json:
        _print_json(found)
    else:
        terminal.print_signals(found, Console())


@review_app.command("report", epilog="Example: groundwatch review report --week 2026-W48")
def review_report(
    config: ConfigOption = None,
    since: SinceOption = "7d",
    week_name: Annotated[str | None, typer.Option("--week", help="An ISO week: 2026-W48.")] = None,
    segment: SegmentOption = "",
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many conversations.")] = 20,
    output: Annotated[ReportFormat, typer.Option("--format", help="Markdown, HTML or JSON.")] = (
        ReportFormat.md
    ),
) -> None:
    """Print the worst conversations, each once, with claims, evidence, signals and reasons."""
    from collector.remote import report as ask
    from dashboards.review.render import render

    window = _window(since, week_name)
    report = _run(ask(load(config), "review", window, segment=segment, limit=limit))
    if output is ReportFormat.json:
        _print_json(report["conversations"])
    else:
        print(render(report, output.value))


@golden_app.command("candidates", epilog="Example: groundwatch golden candidates --since 7d --json")
def golden_candidates(
    config: ConfigOption = None,
    since: SinceOption = "7d",
    week_name: Annotated[str | None, typer.Option("--week", help="An ISO week: 2026-W48.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
    *,
    as_json: JsonOption = False,
) -> None:
    """List questions from the worst conversations that could join the golden set."""
    from dashboards import terminal

    found = _candidates(config, since, week_name, limit)
    if as_json:
        _print_json(found)
    else:
        terminal.print_candidates(found, Console())


@golden_app.command("export", epilog="Example: groundwatch golden export golden.yaml --since 7d")
def golden_export(
    file: Annotated[Path, typer.Argument(help="Golden file; rows are added at its end.")],
    config: ConfigOption = None,
    since: SinceOption = "7d",
    week_name: Annotated[str | None, typer.Option("--week", help="An ISO week: 2026-W48.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
) -> None:
    """Add candidates to a golden file as drafts, leaving out questions it already has."""
    from dashboards.candidates import golden_row
    from sinks import golden_file

    found = _candidates(config, since, week_name, limit)
    result = golden_file.append(file, [golden_row(candidate) for candidate in found])
    print(f"{file}: {len(result.added)} added, {len(result.duplicates)} already there")


def main() -> NoReturn:
    """Run the command line and turn our errors into exit codes and one clear message."""
    try:
        app()
    except ConfigError as err:
        _fail(2, "the configuration cannot be used:\n" + "\n".join(f"  {p}" for p in err.problems))
    except MalformedPayload as err:
        _fail(2, str(err))
    except DependencyError as err:
        _fail(3, str(err))
    except GroundwatchError as err:
        _fail(1, str(err))
    sys.exit(0)


async def _demo(data_dir: Path, console: Console, *, once: bool) -> dict[str, Any] | None:
    from collector.demo.live import run_demo

    return await run_demo(data_dir, once=once, console=console, stop=_stop_on_signals())


async def _serve(resolved: Resolved) -> None:
    from collector.app import running

    log = structlog.get_logger()
    stop = _stop_on_signals()
    async with running(resolved) as agent:
        _say_where(agent.urls)
        waits = [asyncio.create_task(event.wait()) for event in (stop, agent.failed)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    log.info("stopped")


def _stop_on_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set; the second signal ends the process."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def first(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, first, number)
    return stop


def _say_where(urls: Urls) -> None:
    if sys.stderr.isatty():
        for name, url in urls._asdict().items():
            print(f"{name:10} {url}", file=sys.stderr)


def _candidates(
    config: Path | None, since: str, week_name: str | None, limit: int
) -> list[dict[str, Any]]:
    from collector.remote import report as ask

    window = _window(since, week_name)
    report = _run(ask(load(config), "candidates", window, limit=limit))
    found: list[dict[str, Any]] = report["candidates"]
    return found


def _window(since: str, week_name: str | None) -> Window:
    try:
        return week(week_name) if week_name else last(since, datetime.now(UTC))
    except ValueError as err:
        raise ConfigError([f"{'--week' if week_name else '--since'}: {err}"]) from err


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def _fail(code: int, message: str) -> NoReturn:
    print(f"groundwatch: {message}", file=sys.stderr)
    sys.exit(code)
