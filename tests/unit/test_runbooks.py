"""What a runbook tells a tired person to open, type or set is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from prometheus_client import CollectorRegistry

from collector.cli import app
from collector.telemetry import Metrics
from dashboards import alert_rules
from tests.grafana_queries import dashboards_as_stored, panels
from tests.readme_tables import config_rows

TEXT = " ".join(Path(alert_rules.__file__).with_name("RUNBOOKS.md").read_text("utf-8").split())
CODE = re.findall(r"`([^`]+)`", TEXT)
COMMANDS = sorted({one for one in CODE if one.startswith("groundwatch ")})


def test_panels_that_are_named_are_on_the_dashboard_that_is_named() -> None:
    titles = {
        dashboard["title"].removeprefix("groundwatch: "): {p["title"] for p in panels(dashboard)}
        for dashboard in dashboards_as_stored()
    }
    looks = re.findall(r"[Tt]he dashboard (\w[\w ]*?)(?:,| shows|:|\.)(.*?)\*\*", TEXT)
    assert len(looks) == TEXT.count("he dashboard ")
    assert {name for name, _ in looks} <= titles.keys()
    for name, rest in looks:
        assert set(re.findall(r'"([^"]+\?)"', rest)) <= titles[name], name
    assert sum(rest.count('"') for _, rest in looks) == TEXT.count('"')


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_are_there_with_their_options(line: str) -> None:
    command: Any = typer.main.get_command(app)
    for word in line.split("`")[0].split()[1:]:
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
        elif word.startswith("-"):
            assert word in {name for one in command.params for name in one.opts}, line
    assert not hasattr(command, "commands"), f"{line} is a group of commands"


def test_keys_and_metrics_are_there() -> None:
    keys = {key for key, _, _ in config_rows()}
    sections = {key.rpartition(".")[0] for key in keys}
    named = {one.split(":")[0] for one in CODE if re.fullmatch(r"[a-z]+\.[a-z_.]+(: \w+)?", one)}
    assert len(named) > 15
    assert named <= keys | sections
    metrics = {row.name for row in Metrics(CollectorRegistry()).catalogue}
    assert {one for one in CODE if one.startswith("groundwatch_")} <= metrics
