"""The command line.

Exit codes: 0 fine, 1 a check says no, 2 wrong usage or config, 3 a dependency is down.
The heavy parts (stores, servers, clients) are imported by the commands that need them, so that
help, config checks and extraction start at once.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import msgspec
import structlog
import typer
from rich.console import Console

from collector import (
    dashboard_commands,
    dead_letter_commands,
    label_commands,
    report_commands,
)
from collector.agent.roles import ROLES, roles_of
from collector.config import load
from collector.errors import (
    ConfigError,
    DependencyError,
    GroundwatchError,
    MalformedPayload,
    UsageError,
)
from collector.evaluation import commands as evaluation_commands
from collector.golden import commands as golden_commands
from collector.model import NotARequest
from collector.options import (
    ConfigOption,
    DataDirOption,
    DaySinceOption,
    JsonOption,
    LogFiles,
    TraceFiles,
    own_command,
    print_json,
    run_async,
    secret_of,
    to_read,
    window_of,
)
from collector.plain import plain_json
from collector.telemetry import configure_logging

if TYPE_CHECKING:
    from collector.agent.listening import Urls
    from collector.agent.running import Agent

RolesOption = Annotated[
    str,
    typer.Option(
        help="What this process does, separated by commas. Fewer than all need a journal on Kafka "
        "and a ClickHouse server, through which other processes do the rest."
    ),
]

_ALL_ROLES = ",".join(ROLES)

app = typer.Typer(
    name="groundwatch",
    help="Watches a RAG assistant: judges its answers claim by claim, exports honest numbers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    incident: Annotated[
        bool, typer.Option("--incident", help="Then break one segment, so that its page fires.")
    ] = False,
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
            data_dir,
            once=once,
            console=console,
            stop=stop,
            incident=incident,
            command=own_command(),
        )

    configure_logging("warning")
    summary = run_async(watch())
    if summary is None:  # stopped before there was anything to sum up
        return
    if as_json:
        print_json(summary)
    if not summary["accounting_ok"]:
        raise typer.Exit(1)


@app.command(epilog="Example: groundwatch run -c groundwatch.yaml")
def run(config: ConfigOption = None, roles: RolesOption = _ALL_ROLES) -> None:
    """Run the agent until it is told to stop; `--roles` runs a part of it."""
    from collector.agent.running import running
    from sinks.winding_up import left_behind

    chosen = roles_of(roles)
    resolved = load(config)
    configure_logging(resolved.config.log_level)

    async def serve() -> None:
        stop = _stop_on_signals()
        async with running(resolved, chosen) as agent:
            await _until_stopped(agent, stop)
        structlog.get_logger().info("stopped")

    run_async(serve())
    if left_behind():  # Python would wait for a store that is silent, for minutes
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


@app.command("check-config", epilog="Example: groundwatch check-config -c groundwatch.yaml")
def check_config(config: ConfigOption = None) -> None:
    """Check the configuration and print it resolved, secrets masked."""
    print_json(load(config).model_dump(mode="json"))


@app.command(epilog="Example: groundwatch migrate -c groundwatch.yaml --dry-run")
def migrate(
    config: ConfigOption = None,
    *,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be applied.")] = False,
) -> None:
    """Bring the store's tables up to date."""
    from collector.agent.opening import migrate_store

    resolved = load(config, need_secrets=False)
    configure_logging(resolved.config.log_level)
    applied = run_async(migrate_store(resolved.config, dry_run=dry_run))
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
        run_async(ask(to_read(config, data_dir), "doctor", window_of("doctor", since)))
        if live
        else diagnose_files(files, logs or [])
    )
    if as_json:
        print_json(found)
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
    from collector.sending import send_files

    token = secret_of(token_env)
    result = run_async(send_files(files, endpoint, Console(stderr=True), token))
    if as_json:
        print_json(result)
    else:
        print(f"sent {result['sent']} bodies from {result['files']} files")
    for problem in result["problems"]:
        print(problem, file=sys.stderr)
    if result["problems"]:
        raise typer.Exit(1)


report_commands.register(app)
golden_commands.register(app)
evaluation_commands.register(app)
label_commands.register(app)
dead_letter_commands.register(app)
dashboard_commands.register(app)


def main() -> NoReturn:
    """Run the command line and turn our errors into exit codes and one clear message."""
    buffer_output()
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


def buffer_output() -> None:
    """Write output whole even where PYTHONUNBUFFERED is set, as in many containers.

    Unbuffered, a write to a pipe that a signal interrupts ends early and says nothing, and the
    embedded engine sends signals to measure its queries. Lines still go out at once.
    """
    if isinstance(sys.stdout.buffer, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(sys.stdout.buffer),
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            line_buffering=True,
        )


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
        for name, url in urls.in_use.items():
            print(f"{name:10} {url}", file=sys.stderr)


def _fail(code: int, message: str) -> NoReturn:
    print(f"groundwatch: {message}", file=sys.stderr)
    sys.exit(code)
