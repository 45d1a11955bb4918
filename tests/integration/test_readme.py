"""What the README says is true: its commands exist, its examples work, its tables are current."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer.main
from typer.testing import CliRunner

from collector.cli import app
from collector.config import load
from tests.processes import AgentProcess
from tests.readme_tables import README, rendered

ROOT = README.parent
TEXT = README.read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def commands() -> Iterator[tuple[list[str], Any]]:
    def walk(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
        for name, sub in getattr(command, "commands", {}).items():
            if hasattr(sub, "commands"):
                yield from walk(sub, [*path, name])
            else:
                yield [*path, name], sub

    yield from walk(typer.main.get_command(app), [])


def test_the_generated_tables_are_current() -> None:
    assert rendered(TEXT) == TEXT


def test_every_command_has_help_and_a_working_looking_example() -> None:
    for path, command in commands():
        shown = CliRunner().invoke(app, [*path, "--help"])
        assert shown.exit_code == 0, shown.output
        assert command.epilog.startswith("Example: groundwatch " + " ".join(path)), path
        words = shlex.split(command.epilog.removeprefix("Example: groundwatch "))[len(path) :]
        options = {option for p in command.params for option in p.opts}
        assert {w for w in words if w.startswith("-")} <= options, path


def test_every_command_named_exists() -> None:
    known = {" ".join(path) for path, _ in commands()}
    for mention in re.findall(r"`(?:\.venv/bin/)?groundwatch ([a-z][a-z -]*)", TEXT):
        words = mention.split()
        assert {words[0], " ".join(words[:2])} & known, mention


def test_every_make_target_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake ([a-z-]+)", TEXT)):
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target


def test_every_file_named_exists() -> None:
    for path in re.findall(r"`(tests/[\w/]+\.py)`|\]\((?!http)([\w./-]+)\)", TEXT):
        assert (ROOT / (path[0] or path[1])).exists(), path


@pytest.mark.parametrize("example", blocks("yaml"))
def test_the_configuration_example_is_accepted(example: str, tmp_path: Path) -> None:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(example)
    resolved = load(path, {"MY_JUDGE_KEY": "x"})
    assert resolved.config.judge.engine == "openai"


def test_the_signal_example_is_accepted(tmp_path: Path) -> None:
    (call,) = [block for block in blocks("bash") if block.startswith("curl ")]
    words = shlex.split(call.replace("\\\n", " "))
    body = json.loads(words[words.index("-d") + 1])
    with AgentProcess(tmp_path, {}) as agent:
        answer = httpx.post(
            f"{agent.urls['otlp_http']}/v1/signals", json=body, timeout=10, trust_env=False
        )
    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
