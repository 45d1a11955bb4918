"""The command line.

Exit codes: 0 fine, 1 a check says no, 2 wrong usage or config, 3 a dependency is down.
The heavy parts (stores, servers, clients) are imported by the commands that need them, so that
help, config checks and extraction start at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import msgspec
import structlog
import typer
from rich.console import Console

from collector import label_commands
from collector.config import Resolved, load
from collector.errors import (
    ConfigError,
    DependencyError,
    GroundwatchError,
    MalformedPayload,
    UsageError,
)
from collector.evaluation import commands as evaluation_commands
from collector.model import NotARequest
from collector.options import (
    ConfigOption,
    DataDirOption,
    DaySinceOption,
    JsonOption,
    LogFiles,
    SegmentOption,
    SinceOption,
    TraceFiles,
    WeekOption,
    own_command,
    secret_of,
    to_read,
    window_of,
)
from collector.plain import plain_json
from collector.telemetry import configure_logging
from dashboards.windows import Window

if TYPE_CHECKING:
    from collector.app import Agent, Urls

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
evaluation_commands.register(app)
label_commands.register(app)


class ReportFormat(StrEnum):
    """How a report is printed."""

    md = "md"
    html = "html"
    json = "json"


def _print_version(asked: bool) -> None:  # noqa: FBT001 - called by typer
    if asked:
        print(f"groundwatch {version('groundwatch')}")
        raise typer.Exit


@app.callback()
def _top(
    *,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


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
    from collector.demo.live import run_demo

    async def watch() -> dict[str, Any] | None:
        console, stop = Console(quiet=as_json), _stop_on_signals()
        return await run_demo(
            data_dir, once=once, console=console, stop=stop, command=own_command()
        )

    configure_logging("warning")
    summary = _run(watch())
    if summary is None:  # stopped before there was anything to sum up
        return
    if as_json:
        _print_json(summary)
    if not summary["accounting_ok"]:
        raise typer.Exit(1)


@app.command(epilog="Example: groundwatch run -c groundwatch.yaml")
def run(config: ConfigOption = None) -> None:
    """Run the agent until it is told to stop."""
    from collector.app import running

    resolved = load(config)
    configure_logging(resolved.config.log_level)

    async def serve() -> None:
        stop = _stop_on_signals()
        async with running(resolved) as agent:
            await _until_stopped(agent, stop)
        structlog.get_logger().info("stopped")

    _run(serve())


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

    resolved = load(config, need_secrets=False)
    applied = _run(migrate_store(resolved.config, dry_run=dry_run))
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
    print(plain_json(msgspec.json.format(msgspec.json.encode(requests), indent=1).decode()))


@app.command(epilog="Example: groundwatch doctor trace.json, or: groundwatch doctor --live")
def doctor(
    files: TraceFiles = [],  # noqa: B006 - typer reads it only
    logs: LogFiles = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: DaySinceOption = None,
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
        _run(ask(to_read(config, data_dir), "doctor", window_of("doctor", since)))
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
    token_env: Annotated[
        str | None, typer.Option(help="Environment variable with the agent's ingest token.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Send trace files to an agent, waiting when it says so. Unreadable files are named."""
    from collector.remote import send_files

    token = secret_of(token_env)
    result = _run(send_files(files, endpoint, Console(stderr=True), token))
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
    report = _run(ask(to_read(config, data_dir), "estimates", window, segment=segment))
    if as_json:
        _print_json(report)
    else:
        terminal.print_estimates(report, Console())
    if not report["accounting_ok"]:
        raise typer.Exit(1)


@app.command(epilog="Example: groundwatch signals --since 7d --json")
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
    found = _run(ask(to_read(config, data_dir), "signals", window, segment=segment))
    if as_json:
        _print_json(found)
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
    report = _run(ask(read, "review", window, segment=segment, limit=limit))
    if as_json or output is ReportFormat.json:
        _print_json(report["conversations"])
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
        _print_json(found)
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
) -> None:
    """Add candidates to a golden file as drafts, leaving out questions it already has."""
    from dashboards.candidates import golden_row
    from sinks import golden_file

    found = _candidates(to_read(config, data_dir), window_of("candidates", since, week), limit)
    result = golden_file.append(file, [golden_row(candidate) for candidate in found])
    if not found:
        print(f"{file}: no candidates in this window")
    elif not result.added:
        print(f"{file}: nothing to add, all {len(found)} candidates are there already")
    else:
        print(f"{file}: {len(result.added)} added, {len(result.duplicates)} already there")


def main() -> NoReturn:
    """Run the command line and turn our errors into exit codes and one clear message."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be told about
    except ConfigError as err:
        _fail(2, "the configuration cannot be used:\n" + "\n".join(f"  {p}" for p in err.problems))
    except (UsageError, MalformedPayload) as err:
        _fail(2, str(err))
    except DependencyError as err:
        _fail(3, str(err))
    except GroundwatchError as err:
        _fail(1, str(err))
    except OSError as err:
        # What is still to be written cannot be, and must not be tried again at the very end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(err, BrokenPipeError):
            sys.exit(1)
        _fail(3, f"{err.filename or 'the output'}: {err.strerror or err}")
    sys.exit(0)


async def _until_stopped(agent: Agent, stop: asyncio.Event) -> None:
    _say_where(agent.urls)
    waits = [asyncio.create_task(event.wait()) for event in (stop, agent.failed)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


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


def _candidates(resolved: Resolved, window: Window, limit: int) -> list[dict[str, Any]]:
    from collector.remote import report as ask

    report = _run(ask(resolved, "candidates", window, limit=limit))
    found: list[dict[str, Any]] = report["candidates"]
    return found


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _print_json(value: Any) -> None:
    print(plain_json(json.dumps(value, indent=1, ensure_ascii=False, default=str)))


def _fail(code: int, message: str) -> NoReturn:
    print(f"groundwatch: {message}", file=sys.stderr)
    sys.exit(code)
