"""Commands around dead letters: what could not be processed, and another try."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from collector.errors import UsageError
from collector.options import (
    ConfigOption,
    DataDirOption,
    JsonOption,
    print_json,
    run_async,
    secret_of,
    to_read,
)
from sinks.dead_letters import DeadLetter

letters_app = typer.Typer(help="What could not be processed.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(letters_app, name="dead-letters")


@letters_app.command("list", epilog="Example: groundwatch dead-letters list --json")
def list_letters(
    config: ConfigOption = None, data_dir: DataDirOption = None, *, as_json: JsonOption = False
) -> None:
    """List what was set aside: when, why, from where. What it held is not shown."""
    from collector.agent.letters import dead_letters_of

    with dead_letters_of(to_read(config, data_dir)) as letters:
        rows = [_row(letter) for letter in letters.read()]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(
            f"{row['id']}  {row['set_aside_at']:%Y-%m-%d %H:%M:%S}  {row['reason']:13} "
            f"{row['kind']:12} {row['partition']}:{row['offset']}  {row['bytes']} bytes"
            f"{'' if row['replayable'] else ', not kept'}"
        )
    if not rows:
        print("no dead letters")


@letters_app.command("replay", epilog="Example: groundwatch dead-letters replay 3f0c9a1b22d4")
def replay(
    letter_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Which, as listed; all if none.")
    ] = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    endpoint: Annotated[
        str | None,
        typer.Option(help="OTLP/HTTP address of an agent; that of the running one if not given."),
    ] = None,
    token_env: Annotated[
        str | None, typer.Option(help="Environment variable with the agent's ingest token.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Send dead letters to the agent again; those it takes are forgotten."""
    from collector.agent.letters import dead_letters_of
    from collector.sending import announced_receiver, send_letters

    resolved = to_read(config, data_dir)
    folder = resolved.config.data_dir
    with dead_letters_of(resolved) as kept:
        letters = {letter.letter_id: letter for letter in kept.read()}
        wanted = list(dict.fromkeys(letter_ids or letters))
        if unknown := [letter_id for letter_id in wanted if letter_id not in letters]:
            raise UsageError([f"{unknown[0]}: no dead letter has this id; see dead-letters list"])
        endpoint = endpoint or announced_receiver(folder)
        if endpoint is None:
            raise UsageError(
                [f"no agent runs in {folder.absolute()}; start it, or name --endpoint"]
            )
        chosen = [letters[letter_id] for letter_id in wanted]
        token = secret_of(token_env)
        result = run_async(send_letters(chosen, endpoint, Console(stderr=True), kept.remove, token))
    if as_json:
        print_json(result)
    else:
        print(f"{len(result['taken'])} of {len(chosen)} dead letters taken")
    for problem in result["problems"]:
        print(problem, file=sys.stderr)
    if result["problems"]:
        raise typer.Exit(1)


def _row(letter: DeadLetter) -> dict[str, Any]:
    record = letter.record
    return {
        "id": letter.letter_id,
        "set_aside_at": letter.set_aside_at,
        "reason": letter.reason,
        "kind": record.kind,
        "partition": record.position.partition,
        "offset": record.position.offset,
        "key": record.key,
        "bytes": len(record.body),
        "replayable": not letter.body_lost,
    }
