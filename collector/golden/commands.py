"""The commands `golden`: what joins the golden set, what is wrong with it, what it covers."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console

from collector.config import Resolved
from collector.errors import UsageError
from collector.options import (
    ConfigOption,
    DataDirOption,
    JsonOption,
    SinceOption,
    WeekOption,
    print_json,
    run_async,
    to_read,
    window_of,
)
from dashboards.windows import Window

golden_app = typer.Typer(help="The golden set and what joins it.", no_args_is_help=True)

_MOST = 500
_GoldenFile = Annotated[Path, typer.Argument(help="Golden file: YAML, JSON, JSONL.")]
_LimitOption = Annotated[int, typer.Option(min=1, max=_MOST, help="How many at most.")]
_Id = Annotated[str, typer.Argument(metavar="ID", help="Of the candidate.")]
_By = Annotated[str, typer.Option("--by", help="Who you are.")]
_Question = Annotated[str | None, typer.Option(help="The question in your words.")]
_Reference = Annotated[str | None, typer.Option(help="The right answer.")]
_Draft = Annotated[
    bool, typer.Option("--draft-reference", help="The suggested draft is the right answer.")
]
_Sources = Annotated[
    list[str] | None, typer.Option("--source", help="A page that holds the answer; repeatable.")
]
_Quotes = Annotated[
    list[str] | None,
    typer.Option("--quote", help="A text that must reach the prompt; repeatable."),
]
_Segment = Annotated[str | None, typer.Option(help="Its segment.")]
_Answerable = Annotated[
    bool | None,
    typer.Option("--answerable/--unanswerable", help="Whether the pages hold an answer."),
]


class _Format(StrEnum):
    """Shapes of datasets; see `collector.golden.shapes.SHAPES`."""

    ragas = "ragas"
    deepeval = "deepeval"
    langfuse = "langfuse"
    phoenix = "phoenix"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(golden_app, name="golden")


# --- What joins it -----------------------------------------------------------------------


@golden_app.command("candidates", epilog="Example: groundwatch golden candidates --since 7d --json")
def candidates(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: SinceOption = None,
    week: WeekOption = None,
    limit: _LimitOption = 50,
    golden: Annotated[
        Path | None, typer.Option(help="Golden file, to name what it asks already.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List questions from the worst conversations that could join the golden set."""
    from dashboards import terminal
    from sinks.golden_file import load, similar

    read = to_read(config, data_dir)
    held = load(golden) if golden is not None else []
    found = _candidates(read, window_of("candidates", since, week), limit)
    if golden is not None:
        for one in found:
            same = (alike.row.id for alike in similar(one["question"], held) if alike.same)
            one["same_as"] = next(same, None)
    if as_json:
        print_json(found)
    else:
        terminal.print_candidates(found, Console())


def _changing(event: Literal["accepted", "edited"]) -> Callable[..., None]:
    """Return the command that does this to a candidate, with what is given changed."""

    def command(
        candidate_id: _Id,
        by: _By,
        question: _Question = None,
        reference_answer: _Reference = None,
        sources: _Sources = None,
        quotes: _Quotes = None,
        segment: _Segment = None,
        *,
        answerable: _Answerable = None,
        draft_reference: _Draft = False,
        config: ConfigOption = None,
        data_dir: DataDirOption = None,
        since: SinceOption = None,
    ) -> None:
        given = _given(question, reference_answer, sources, quotes, segment, answerable)
        if event == "edited" and not given and not draft_reference:
            raise UsageError(["edit: name what to change, such as --reference-answer"])
        read, window = to_read(config, data_dir), window_of("candidates", since)
        _act(read, window, candidate_id, event, by, given, draft_reference=draft_reference)

    return command


golden_app.command(
    "accept",
    help="Accept a candidate as it stands, or with what you give here; export adds it to the set.",
    epilog="Example: groundwatch golden accept live-1f --by Ana",
)(_changing("accepted"))
golden_app.command(
    "edit",
    help="Change a candidate without deciding on it.",
    epilog="Example: groundwatch golden edit live-1f --by Ana --source page-212",
)(_changing("edited"))


@golden_app.command("reject", epilog="Example: groundwatch golden reject live-1f --by Ana")
def reject(
    candidate_id: _Id,
    by: _By,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: SinceOption = None,
) -> None:
    """Reject a candidate: it stays out of the golden set."""
    read, window = to_read(config, data_dir), window_of("candidates", since)
    _act(read, window, candidate_id, "rejected", by, {})


def _given(
    question: str | None,
    reference_answer: str | None,
    sources: list[str] | None,
    quotes: list[str] | None,
    segment: str | None,
    answerable: bool | None,  # noqa: FBT001 - three-valued, as typed
) -> dict[str, Any]:
    fields = {
        "question": question,
        "reference_answer": reference_answer,
        "gold_sources": sources or None,
        "quotes": quotes or None,
        "segment": segment,
        "answerable": answerable,
    }
    if answerable is False:
        fields |= {"gold_sources": sources or [], "quotes": quotes or []}
    elif sources and answerable is None:
        fields["answerable"] = True
    return {name: value for name, value in fields.items() if value is not None}


def _act(
    resolved: Resolved,
    window: Window,
    candidate_id: str,
    event: str,
    by: str,
    given: dict[str, Any],
    *,
    draft_reference: bool = False,
) -> None:
    """Do something to a candidate, on top of what people did before."""
    from collector import remote
    from collector.candidates import CandidateRow

    touched = {one.candidate_id: one for one in run_async(remote.reviewed(resolved))}
    state = touched.get(candidate_id)
    candidate = None
    if state is None or state.row is None or draft_reference:
        candidate = _candidate(resolved, window, candidate_id)
    row = {**(candidate or {}), **((state and state.row) or {}), **given}
    if draft_reference:
        if candidate is None or candidate["draft_reference"] is None:
            raise UsageError(["--draft-reference: there is none; give --reference-answer"])
        row["reference_answer"] = candidate["draft_reference"]
    if event == "accepted" and not row["answerable"] and "answerable" not in given and not state:
        raise UsageError(
            [
                "no page was found that answers it: say --unanswerable, or give --source and "
                "--reference-answer"
            ]
        )
    trace_id = candidate["provenance"]["trace_id"] if candidate else None
    action = {
        "event": event,
        "actor": by,
        "seen": state.version if state else 0,
        "trace_id": (state and state.trace_id) or trace_id,
        "row": {name: row[name] for name in CandidateRow.__struct_fields__},
    }
    (now,) = run_async(remote.act(resolved, {candidate_id: action}))
    print(f"{candidate_id}: {now.state} by {now.actor}")


def _candidate(resolved: Resolved, window: Window, candidate_id: str) -> dict[str, Any]:
    found = _candidates(resolved, window, _MOST)
    candidate = next((one for one in found if one["id"] == candidate_id), None)
    if candidate is None:
        raise UsageError(
            [f"{candidate_id}: no candidate of this window; see golden candidates, or give --since"]
        )
    return candidate


@golden_app.command("export", epilog="Example: groundwatch golden export golden.yaml --since 7d")
def export(
    file: Annotated[Path, typer.Argument(help="Golden file; rows are added at its end.")],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: SinceOption = None,
    week: WeekOption = None,
    limit: _LimitOption = 50,
    shape: Annotated[
        _Format | None,
        typer.Option("--format", help="Print the file's rows as a dataset; nothing is added."),
    ] = None,
    *,
    accepted_only: Annotated[
        bool, typer.Option("--accepted-only", help="Only what people accepted in the review.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Add what people accepted, and unreviewed candidates as drafts, to a golden file.

    Questions it already has are left out, and so are those that people rejected or still edit.
    """
    from sinks import golden_file

    if shape is not None:
        from collector.golden.shapes import SHAPES

        rows = [row for row in golden_file.load(file) if not golden_file.is_draft(row)]
        print(SHAPES[shape.value](rows, file.stem), end="")
        return
    read, window = to_read(config, data_dir), window_of("candidates", since, week)
    drafts = [] if accepted_only else _candidates(read, window, limit)
    _add(file, read, drafts, as_json=as_json)


def _add(file: Path, read: Resolved, candidates: list[dict[str, Any]], *, as_json: bool) -> None:
    from collector import remote
    from dashboards.candidate_states import FRESH
    from dashboards.candidates import golden_row, reviewed_row
    from sinks import golden_file

    touched = run_async(remote.reviewed(read))
    accepted = [one for one in touched if one.state == "accepted"]
    rows = [
        *(reviewed_row(one) for one in accepted),
        *(golden_row(one) for one in candidates if one["state"] == FRESH),
    ]
    result = golden_file.append(file, rows)
    # Not only what was just added: an export that was cut short is made up for.
    held = golden_file.load(file) if file.exists() else []
    finished = {row.id for row in held if not golden_file.is_draft(row)}
    exported = {
        one.candidate_id: {
            "event": "exported",
            "actor": getpass.getuser(),
            "seen": one.version,
            "file": file.name,
        }
        for one in accepted
        if one.candidate_id in finished
    }
    if exported:
        run_async(remote.act(read, exported))
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
        drafted = sum(map(golden_file.is_draft, result.added))
        print(
            f"{file}: {len(result.added) - drafted} accepted added, "
            f"{drafted} unreviewed added as drafts, {len(result.duplicates)} already there"
        )


def _candidates(resolved: Resolved, window: Window, limit: int) -> list[dict[str, Any]]:
    from collector.remote import report as ask

    report = run_async(ask(resolved, "candidates", window, limit=limit))
    found: list[dict[str, Any]] = report["candidates"]
    return found


# --- What is wrong with it, what it covers -----------------------------------------------


@golden_app.command("lint", epilog="Example: groundwatch golden lint golden.yaml --pages pages.txt")
def lint(
    file: _GoldenFile,
    pages: Annotated[
        Path | None,
        typer.Option(help="The pages there are: one id a line, or JSON with ids and texts."),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Say what is wrong with a golden set. Exit code 1 where a row is in error."""
    from collector.golden.lint import lint as check
    from collector.golden.pages import read_pages
    from collector.golden.printed import findings
    from sinks.golden_file import load_placed

    found = check(load_placed(file), None if pages is None else read_pages(pages))
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        findings(file, found)
    if any(one.level == "error" for one in found):
        raise typer.Exit(1)


@golden_app.command(
    "coverage", epilog="Example: groundwatch golden coverage golden.yaml --since 4w"
)
def coverage(
    file: _GoldenFile,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: SinceOption = None,
    week: WeekOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Compare a golden set with live traffic. Exit code 1 where it is stale."""
    from collector.golden.coverage import coverage as compare
    from collector.golden.printed import coverage as show
    from collector.remote import report as ask
    from sinks.golden_file import load

    rows = load(file)
    window = window_of("live_questions", since, week)
    live = run_async(ask(to_read(config, data_dir), "live_questions", window))
    found = compare(rows, live["questions"])
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        show(found, Console())
    if found.stale:
        raise typer.Exit(1)
