"""Alert rules in Prometheus' own test runner."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from dashboards import alert_rules

RULES = Path(alert_rules.__file__).parent / "rules" / "alerts.yml"
ALERTS = [r["alert"] for group in alert_rules.rules()["groups"] for r in group["rules"]]

Series = dict[str, str]
"""Values of series, a minute apart, in promtool's notation."""


def run(
    folder: Path, series: Series, alert_tests: list[dict[str, Any]]
) -> subprocess.CompletedProcess[str]:
    """Let promtool compare the alerts of these series with what is expected."""
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": s, "values": v} for s, v in series.items()],
                "alert_rule_test": alert_tests,
            }
        ],
    }
    path = folder / "test.yml"
    YAML(typ="safe", pure=True).dump(test, path)
    return subprocess.run(
        ["promtool", "test", "rules", path], capture_output=True, text=True, check=False
    )


def firing(folder: Path, series: Series, minutes: Iterable[int]) -> dict[int, set[str]]:
    """Return which alerts fire in which minute, by telling promtool that none does."""
    found: dict[int, set[str]] = {minute: set() for minute in minutes}
    none = [{"eval_time": f"{m}m", "alertname": name} for m in found for name in ALERTS]
    done = run(folder, series, none)
    said = done.stdout + done.stderr
    for name, time in re.findall(r"alertname: (\w+), time: (\w+)", said):
        found[_minutes(time)].add(name)
    if bool(done.returncode) != any(found.values()):
        raise AssertionError(said)
    return found


def summaries(folder: Path, series: Series, minute: int, alert: str) -> list[str]:
    """Return the summary of each alert of this name that fires."""
    done = run(folder, series, [{"eval_time": f"{minute}m", "alertname": alert}])
    return re.findall(
        r'summary="((?:[^"\\]|\\.)*)"', (done.stdout + done.stderr).partition("got:")[2]
    )


def _minutes(time: str) -> int:
    units = {"d": 1440, "h": 60, "m": 1, "s": 0}
    return sum(int(n) * units[unit] for n, unit in re.findall(r"(\d+)([dhms])", time))
