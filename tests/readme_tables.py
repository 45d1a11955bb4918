"""Renders the README's tables of config keys, metrics and commands from the code.

python -m tests.readme_tables writes them; with --check it only compares.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import typer.main
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from collector.cli import app
from collector.config import Config
from collector.telemetry import Metrics

README = Path(__file__).parents[1] / "README.md"


def config_rows(
    model: type[BaseModel] = Config, prefix: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield (key path, default, meaning) for every key that can be set."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from config_rows(annotation, f"{prefix}{name}.")
            continue
        yield (
            f"{prefix}{name}",
            _default(field.get_default(call_default_factory=True)),
            str(field.description),
        )
        members = get_args(annotation) if get_origin(annotation) is UnionType else ()
        for optional in members:  # a section that may be left out
            if isinstance(optional, type) and issubclass(optional, BaseModel):
                yield from config_rows(optional, f"{prefix}{name}.")


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return ""
    return json.dumps(value, default=str)


def metric_rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield (name, type, labels, meaning) for every metric."""
    for row in Metrics(CollectorRegistry()).catalogue:
        yield row.name, row.kind, ", ".join(row.labels), row.help


def command_rows() -> Iterator[tuple[str, str]]:
    """Yield (command, what it does) for every command."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, str]]:
        for name, sub in getattr(command, "commands", {}).items():
            if hasattr(sub, "commands"):
                yield from walk(sub, f"{path} {name}")
            else:
                yield f"{path} {name}", (sub.help or "").strip().splitlines()[0]

    yield from walk(typer.main.get_command(app), "groundwatch")


def rendered(text: str) -> str:
    """Return the README with its generated parts renewed."""
    tables = {
        "config": _table(("key", "default", "meaning"), config_rows()),
        "metrics": _table(("metric", "type", "labels", "meaning"), metric_rows()),
        "commands": _table(("command", "what it does"), command_rows()),
    }
    for name, table in tables.items():
        begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
        before, found_begin, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found_begin and found_end):
            raise SystemExit(f"README.md: the markers of the table {name} are missing")
        text = before + begin + table + end + after
    return text


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cells) + " |\n"

    body = "".join(
        line((f"`{first}`", *(cell.replace("|", "\\|") for cell in rest))) for first, *rest in rows
    )
    return line(head) + "|---" * len(head) + "|\n" + body


def main() -> int:
    """Write or check."""
    text = README.read_text()
    fresh = rendered(text)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether it is current")
    if not parser.parse_args().check:
        README.write_text(fresh)
        return 0
    if fresh != text:
        print("README.md: generated tables are out of date; run make fmt", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
