"""What commands share: options and what they mean together, the event loop, JSON."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr

from collector.config import Resolved, load
from collector.errors import UsageError
from collector.plain import plain_json
from dashboards.windows import Window, chosen, default_span

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file; without one all defaults hold.")
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder with the data to read, instead of the one in the configuration."),
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
DaySinceOption = Annotated[
    str | None, typer.Option("--since", help="Span of time that ends now, 24h if not given.")
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", help="Span of time that ends now: 90m, 24h, 2w; 7d if not given."),
]
WeekOption = Annotated[
    str | None, typer.Option("--week", help="An ISO week instead, such as 2026-W48.")
]
SegmentOption = Annotated[str, typer.Option(help="Only this segment.")]


def window_of(report: str, since: str | None, week: str | None = None) -> Window:
    """Return the window that a command asks for.

    Raises:
        UsageError: naming the option that cannot be understood.
    """
    try:
        return chosen(datetime.now(UTC), default_span(report), since=since, week=week)
    except ValueError as err:
        raise UsageError([f"--{err}"]) from err


def to_read(config: Path | None, data_dir: Path | None) -> Resolved:
    """Return the configuration of a command that only reads: no secret is asked for.

    Raises:
        UsageError: both a folder and a configuration with a store elsewhere are given.
        ConfigError: the configuration cannot be used.
    """
    resolved = load(config, need_secrets=False)
    if data_dir is None:
        return resolved
    if resolved.config.store.url is not None:
        raise UsageError([f"--data-dir: {config} sets store.url already; leave one of them out"])
    changed = resolved.config.model_copy(update={"data_dir": data_dir})
    return resolved.model_copy(update={"config": changed})


def secret_of(variable: str | None, option: str = "--token-env") -> SecretStr | None:
    """Return the secret in an environment variable, None without one.

    Raises:
        UsageError: the variable is not set.
    """
    if variable is None:
        return None
    if not (value := os.environ.get(variable)):
        raise UsageError([f"{option}: the environment variable {variable} is not set"])
    return SecretStr(value)


def own_command() -> str:
    """Return what to type to call this program again."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m collector"
    if shutil.which(called.name) == str(called):
        return called.name
    here = Path.cwd()
    return str(called.relative_to(here) if called.is_relative_to(here) else called)


def run_async(work: Coroutine[Any, Any, Any]) -> Any:
    """Return what `work` returns, on an event loop of its own."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def print_json(value: Any) -> None:
    """Print data as JSON, as every command does."""
    print(plain_json(json.dumps(value, indent=1, ensure_ascii=False, default=str)))
