"""The commands `eval`, `compare` and `gate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from collector.config import load
from collector.errors import DependencyError, UsageError
from collector.options import (
    ConfigOption,
    DaySinceOption,
    JsonOption,
    own_command,
    print_json,
    run_async,
    window_of,
)

if TYPE_CHECKING:
    from collector.config import Resolved
    from collector.evaluation.gate import Decision

_OLD = typer.Argument(help="Run of the version in use: its name, or its folder.")
_NEW = typer.Argument(help="Run of the version that is to replace it.")


class _RunFormat(StrEnum):
    md = "md"
    html = "html"
    junit = "junit"
    json = "json"


class _GateFormat(StrEnum):
    md = "md"
    junit = "junit"
    json = "json"


class _Tier(StrEnum):
    retrieval = "retrieval"
    full = "full"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("eval", epilog=f"Example: groundwatch eval golden.yaml --target {_EXAMPLE}")(_eval)
    app.command("evaluations", epilog="Example: groundwatch evaluations nightly --format html")(
        _runs
    )
    app.command("compare", epilog="Example: groundwatch compare before after --json")(_compare)
    app.command("gate", epilog="Example: groundwatch gate before after")(_gate)


_EXAMPLE = "http://127.0.0.1:8000/ask --run before"


def _eval(
    context: typer.Context,
    golden: Annotated[Path | None, typer.Argument(help="Golden file: YAML, JSON, JSONL.")] = None,
    target: Annotated[str | None, typer.Option(help="Address of the assistant.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Recorded answers instead: JSON lines with id.")
    ] = None,
    stored: Annotated[
        str | None,
        typer.Option(help="Stored traces instead: the span attribute with the golden id."),
    ] = None,
    since: DaySinceOption = None,
    run: Annotated[str | None, typer.Option(help="Name of the run; the time if none.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this run.")] = None,
    tier: Annotated[
        _Tier, typer.Option(help="retrieval: what was found and refused, without any judge.")
    ] = _Tier.full,
    by: Annotated[str, typer.Option(help="Key of the golden rows to cut the report by.")] = (
        "segment"
    ),
    config: ConfigOption = None,
    *,
    store: Annotated[bool, typer.Option(help="Keep the rows in the store too.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Put a golden set to an assistant and measure the answers, question by question."""
    from collector.evaluation import printed, session
    from collector.evaluation.run import progress

    places = [place for place in (target, results, stored) if place is not None]
    if resume is not None:
        _only_resumed(context)
        folder = session.resume(load(config, need_secrets=False), resume)
    else:
        if golden is None or len(places) != 1:
            raise UsageError(["give a golden file, and one of --target, --results, --stored"])
        place = _place(target, results, stored)
        asked = session.Asked(golden, place, tier.value, by)
        resolved = load(config, need_secrets=tier is _Tier.full)
        window = window_of("estimates", since)
        folder = run_async(session.begin(resolved, run, asked, window))
    with folder, _told_how_to_go_on(folder.path):
        resolved = load(config, need_secrets=folder.run.tier == "full")
        report = run_async(session.complete(resolved, folder, progress, store=store))
    if as_json:
        print_json(report)
    else:
        printed.report(report, Console())
        print(f"rows and report: {folder.path}")


_FIXED = ("golden", "target", "results", "stored", "since", "run", "tier", "by")


def _only_resumed(context: typer.Context) -> None:
    """Refuse what a resumed run has settled: silently left aside, it would seem to hold."""
    given = [
        name if name == "golden" else f"--{name}"
        for name in _FIXED
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]
    if given:
        raise UsageError([f"--resume: takes {', '.join(given)} from the run; leave it out"])


@contextmanager
def _told_how_to_go_on(run: Path) -> Iterator[None]:
    try:
        yield
    except (DependencyError, KeyboardInterrupt):
        print(f"go on with: {own_command()} eval --resume {run.name}", file=sys.stderr)
        raise


def _place(target: str | None, results: Path | None, stored: str | None) -> str:
    """Return where answers come from, as a run remembers it."""
    from collector.evaluation.session import STORED
    from collector.sending import check_address

    if results is not None:
        return str(results.absolute())
    if stored is not None:
        return STORED + stored
    address = str(target)
    check_address("--target", address)
    return address


def _runs(
    run: Annotated[str | None, typer.Argument(help="Show this one: name, or folder.")] = None,
    shape: Annotated[
        _RunFormat | None, typer.Option("--format", help="Print its report as a file.")
    ] = None,
    config: ConfigOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the runs that eval made, oldest first, or show the report on one of them."""
    from collector.evaluation import printed
    from collector.evaluation.documents import render_run
    from collector.evaluation.folder import finished
    from collector.evaluation.kept import kept_runs
    from collector.evaluation.report import summary
    from collector.evaluation.session import place_of, runs_folder

    resolved = load(config, need_secrets=False)
    as_json = as_json or shape is _RunFormat.json
    if run is None:
        if shape not in (None, _RunFormat.json):
            raise UsageError(["--format: name the run whose report is wanted"])
        kept = kept_runs(runs_folder(resolved))
        if as_json:
            print_json(msgspec.to_builtins(kept))
        elif kept:
            printed.runs(kept, Console())
        else:
            print(f"no run in {runs_folder(resolved)}; `groundwatch eval` makes one")
        return
    found = finished(place_of(resolved, run))
    rows = list(found.rows.values())
    report = summary(found.run, rows)
    if as_json:
        print_json(report)
    elif shape is not None:
        print(render_run(report, rows, shape.value), end="")
    else:
        printed.report(report, Console())


def _compare(
    old: Annotated[str, _OLD],
    new: Annotated[str, _NEW],
    config: ConfigOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Say where one run is better or worse than another, and what could not be shown."""
    from collector.evaluation import printed
    from collector.evaluation.compare import compare
    from collector.evaluation.session import two_runs

    found = compare(*two_runs(load(config, need_secrets=False), old, new))
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        printed.compared(found, Console())


def _gate(
    old: Annotated[str, _OLD],
    new: Annotated[str, _NEW],
    shape: Annotated[
        _GateFormat | None,
        typer.Option("--format", help="md for the summary of a CI job, junit for its tests."),
    ] = None,
    config: ConfigOption = None,
    *,
    store: Annotated[bool, typer.Option(help="Keep what it says in the store too.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Say whether a version may be released: exit code 0 if it may, 1 with reasons if not."""
    from collector.evaluation import printed
    from collector.evaluation.documents import render_decision
    from collector.evaluation.gate import decide
    from collector.evaluation.session import two_runs

    resolved = load(config, need_secrets=False)
    decision = decide(*two_runs(resolved, old, new), resolved.config.evaluation.gate)
    if as_json or shape is _GateFormat.json:
        print_json({"passed": decision.passed, **msgspec.to_builtins(decision)})
    elif shape is not None:
        print(render_decision(decision, shape.value), end="")
    else:
        printed.decision(decision, Console())
    if store:
        _keep(resolved, decision)
    if not decision.passed:
        raise typer.Exit(1)


def _keep(resolved: Resolved, decision: Decision) -> None:
    """Keep what the gate said; a store that is away changes no decision on a release."""
    from collector.gates import GateResult
    from collector.remote import send_gate

    result = GateResult(
        old=decision.compared.old,
        new=decision.compared.new,
        decided_at=datetime.now(UTC),
        blocked=decision.blocked,
        warnings=decision.warnings,
    )
    try:
        run_async(send_gate(resolved, result))
    except DependencyError as err:
        print(f"the decision stands, but it is not kept: {err}", file=sys.stderr)
