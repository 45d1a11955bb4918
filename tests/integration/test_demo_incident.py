"""A bad release in the demo: the page fires in Prometheus, and its runbook finds the cause."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dashboards import alert_rules
from tests.dashboards_verify import demo
from tests.prometheus_server import Prometheus

pytestmark = pytest.mark.prometheus
FIRING = 'ALERTS{alertname="GroundwatchFaithfulnessLow", alertstate="firing"}'


def scaled_rules(folder: Path) -> Path:
    """Write the alert rules so that minutes are seconds."""
    (group,) = alert_rules.rules()["groups"]
    rules = [rule | {"for": "1s"} for rule in group["rules"]]
    path = folder / "rules.yml"
    scaled = {"groups": [group | {"interval": "1s", "rules": rules}]}
    YAML(typ="safe", pure=True).dump(scaled, path)
    return path


def first_look() -> list[str]:
    """Return the command that the runbook of the page begins with."""
    runbook = (Path(alert_rules.__file__).parent / "RUNBOOKS.md").read_text()
    section = runbook.partition("## GroundwatchFaithfulnessLow\n")[2]
    (command,) = re.findall(
        r"\*\*First look\.\*\* `groundwatch ([^`]+)`", section.split("\n## ")[0]
    )
    return str(command).split()


def test_the_page_names_the_segment_and_the_runbook_finds_the_cause(tmp_path: Path) -> None:
    with demo(tmp_path, "--incident") as (urls, _):
        target = urls["metrics"].removeprefix("http://").removesuffix("/metrics")
        with Prometheus(tmp_path, [target], scaled_rules(tmp_path)) as prometheus:
            found = wait_for_page(prometheus)
    assert {one["metric"]["segment"] for one in found} == {"comparison"}
    assert {one["metric"]["severity"] for one in found} == {"page"}
    words = [word.replace("SEGMENT", "comparison") for word in first_look()]
    done = subprocess.run(
        [sys.executable, "-m", "collector", *words, "--data-dir", "demo", "--format", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    conversations = json.loads(done.stdout)
    assert {one["segment"] for one in conversations} == {"comparison"}
    causes = Counter(cause for one in conversations for cause in one["diagnosis"]["possible"])
    assert causes["not_retrieved"] > 0.6 * len(conversations), causes
    assert causes["not_retrieved"] == max(causes.values()), causes


def wait_for_page(prometheus: Prometheus) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 120
    while not (found := prometheus.query(FIRING)):
        evidence = prometheus.query("groundwatch_faithfulness_evidence")
        assert time.monotonic() < deadline, evidence
        time.sleep(0.5)
    return found
