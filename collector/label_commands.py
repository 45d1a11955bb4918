"""Commands around labels of people: draw claims to label, take labels in, show the agreement."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from collector.errors import MalformedPayload
from collector.labels import Label
from collector.options import (
    ConfigOption,
    DataDirOption,
    JsonOption,
    SegmentOption,
    SinceOption,
    WeekOption,
    print_json,
    run_async,
    to_read,
    window_of,
)
from collector.plain import plain_json

labels_app = typer.Typer(help="Labels of people, to calibrate the judge.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(labels_app, name="labels")
    app.command(epilog="Example: groundwatch calibration --json")(calibration)


@labels_app.command("sample", epilog="Example: groundwatch labels sample --since 7d > claims.jsonl")
def sample(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    since: SinceOption = None,
    week: WeekOption = None,
    segment: SegmentOption = "",
    limit: Annotated[int, typer.Option(min=2, max=500, help="How many claims.")] = 100,
) -> None:
    """Print claims to label as JSON lines: fill in verdict and labeller. The judge stays hidden."""
    from collector.remote import report as ask

    asked = ask(
        to_read(config, data_dir),
        "claims_to_label",
        window_of("claims_to_label", since, week),
        segment=segment,
        limit=limit,
    )
    for claim in run_async(asked)["claims"]:
        print(plain_json(json.dumps(claim, ensure_ascii=False)))


@labels_app.command("import", epilog="Example: groundwatch labels import claims.jsonl")
def import_labels(
    file: Annotated[
        Path, typer.Argument(help="JSON lines as printed by sample.", exists=True, dir_okay=False)
    ],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Take in labels; lines without a verdict are left out. Importing again changes nothing."""
    from collector.remote import send_labels

    items = [item for item in _lines(file) if item.get("verdict") is not None]
    # The time of the file, so that importing it twice is no newer word than importing it once.
    at = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat()
    # Without the documents, which an agent need not be sent back.
    fields = Label.__struct_fields__
    labels = [{"labelled_at": at, **{k: item[k] for k in fields if k in item}} for item in items]
    found = run_async(send_labels(to_read(config, data_dir), labels))
    print(f"{found.stored} labels stored")
    if found.unlisted:
        print(f"of these do not count, as this judge has not listed the claim: {found.unlisted}")


def calibration(
    config: ConfigOption = None, data_dir: DataDirOption = None, *, as_json: JsonOption = False
) -> None:
    """Print how far the judge agrees with people, and whether it is trusted."""
    from collector.remote import report as ask
    from dashboards import terminal

    asked = ask(to_read(config, data_dir), "calibration", window_of("calibration", None))
    found = run_async(asked)
    if as_json:
        print_json(found)
    else:
        terminal.print_calibration(found, Console())


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise MalformedPayload(f"{file}: is not UTF-8; save it in that encoding") from err
    items = []
    for number, line in enumerate(text.split("\n"), 1):  # splitlines() would cut inside of strings
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as err:
            raise MalformedPayload(
                f"{file}: line {number} is not JSON; each line is an object as printed by "
                "groundwatch labels sample"
            ) from err
        if not isinstance(item, dict):
            raise MalformedPayload(f"{file}: line {number} must be an object")
        items.append(item)
    return items
