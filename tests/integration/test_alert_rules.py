"""Who is paged, and who is not: the alert rules in Prometheus' own test runner."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from collector.telemetry import Metrics
from dashboards import alert_rules, prometheus_rules
from tests.promtool import RULES, Series, run, summaries

pytestmark = pytest.mark.prometheus
FOLDER = Path(alert_rules.__file__).parent

SEGMENT = 'service="bot", segment="lookup", judge="j"'
SCRAPED = f'instance="a", job="groundwatch", {SEGMENT}'
LOW = "GroundwatchFaithfulnessLow"
BROKEN = "GroundwatchAccountingBroken"


def evidence(values: str, threshold: str = "14400x240") -> Series:
    return {
        f"groundwatch_faithfulness_evidence{{{SCRAPED}}}": values,
        f"groundwatch_faithfulness_evidence_threshold{{{SCRAPED}}}": threshold,
    }


def judged(weight: str, failed: str) -> Series:
    return {
        f"groundwatch_faithfulness_weight_total{{{SCRAPED}}}": weight,
        f"groundwatch_faithfulness_failed_weight_total{{{SCRAPED}}}": failed,
    }


def difference(values: str) -> Series:
    return {'groundwatch_accounting_difference{instance="a", job="groundwatch"}': values}


def fires(folder: Path, alert: str, series: Series, at: list[int]) -> dict[int, bool]:
    """Return at which of the minutes the alert fires, by asking promtool for either answer."""
    return {minute: not _silent(folder, alert, series, minute) for minute in at}


def _silent(folder: Path, alert: str, series: Series, minute: int) -> bool:
    done = run(folder, series, [{"eval_time": f"{minute}m", "alertname": alert}])
    if done.returncode and "alertname" not in done.stdout + done.stderr:
        raise AssertionError(done.stdout + done.stderr)
    return done.returncode == 0


def test_the_rule_file_is_current_and_valid() -> None:
    assert RULES.read_text() == alert_rules.rendered()
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_alert_says_what_to_do_and_uses_names_of_the_catalogue() -> None:
    metrics = Metrics(CollectorRegistry())
    known = {row.name for row in metrics.catalogue}
    recorded = {r["record"] for group in prometheus_rules.rules()["groups"] for r in group["rules"]}
    headings = re.findall(r"^## (\w+)$", (FOLDER / "RUNBOOKS.md").read_text(), re.MULTILINE)
    (group,) = alert_rules.rules()["groups"]
    assert [rule["alert"] for rule in group["rules"]] == headings
    for rule in group["rules"]:
        assert set(re.findall(r"segment:[\w:]+", rule["expr"])) <= recorded
        rest = re.sub(r"segment:[\w:]+", "", rule["expr"])
        assert set(re.findall(r"groundwatch_\w+", rest)) <= known
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["runbook"].endswith("#" + rule["alert"].lower())


def test_each_runbook_says_what_it_means_and_what_to_do() -> None:
    _, *sections = re.split(r"^## ", (FOLDER / "RUNBOOKS.md").read_text(), flags=re.MULTILINE)
    for section in sections:
        parts = re.findall(r"^\*\*([\w ]+)\.\*\* \S+", section, re.MULTILINE)
        assert parts == [
            *("Means", "First look", "Likely causes"),
            *("What to do", "How to silence"),
        ], section[:40]


def test_evidence_above_the_threshold_pages_and_says_where(tmp_path: Path) -> None:
    series = evidence("100+500x100")  # 14600 in minute 29
    assert fires(tmp_path, LOW, series, [28, 29, 30, 100]) == {
        28: False,
        29: False,
        30: True,
        100: True,
    }
    expected = {
        "exp_labels": {
            "severity": "page",
            "service": "bot",
            "segment": "lookup",
            "judge": "j",
        },
        "exp_annotations": {
            "summary": "Answers of bot, segment lookup are less faithful than they should be.",
            "description": "The evidence is 15.1k, above what a healthy month brings. Judge: j.",
            "runbook": "dashboards/RUNBOOKS.md#groundwatchfaithfulnesslow",
        },
    }
    told = {"eval_time": "30m", "alertname": LOW, "exp_alerts": [expected]}
    done = run(tmp_path, series, [told])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "series",
    [
        evidence("0+100x140"),
        evidence("3x240", threshold="1000x240"),
        {},
        evidence("_x240"),
        evidence("9000x60 _x5 9000x60"),
    ],
    ids=["health", "low traffic", "no data", "nothing judged yet", "a restart in health"],
)
def test_no_page_without_evidence(series: Series, tmp_path: Path) -> None:
    assert not any(fires(tmp_path, LOW, series, [1, 30, 63, 67, 120]).values())


def test_a_restart_is_no_recovery(tmp_path: Path) -> None:
    series = evidence("20000x60 _x9 20000x60", threshold="14400x60 _x9 14400x60")
    assert all(fires(tmp_path, LOW, series, [60, 64, 69, 71, 80, 100]).values())


def test_a_page_is_the_same_one_when_another_agent_reports(tmp_path: Path) -> None:
    first, second = evidence("20000x60 _x200", "14400x60 _x200"), evidence("_x64 21000x200")
    series = first | {name.replace('"a"', '"b"'): values for name, values in second.items()}
    assert all(fires(tmp_path, LOW, series, [60, 62, 64, 66, 120]).values())
    for minute in (60, 62, 66, 120):
        assert len(summaries(tmp_path, series, minute, LOW)) == 1


def test_a_page_ends_when_the_evidence_begins_from_nothing(tmp_path: Path) -> None:
    series = evidence("20000x60 0x180")
    assert fires(tmp_path, LOW, series, [60, 90]) == {60: True, 90: False}


@pytest.mark.parametrize(("failed", "paged"), [("0+10x240", True), ("0+12x240", False)])
def test_nobody_is_paged_by_a_mean_of_which_a_tenth_is_missing(
    failed: str, paged: bool, tmp_path: Path
) -> None:
    series = evidence("20000x240") | judged("0+100x240", failed)
    assert fires(tmp_path, LOW, series, [120]) == {120: paged}


def test_an_accounting_that_does_not_add_up_pages_unless_it_soon_does(tmp_path: Path) -> None:
    assert fires(tmp_path, BROKEN, difference("0x60"), [30]) == {30: False}
    assert fires(tmp_path, BROKEN, difference("0x10 1x3 0x60"), [12, 15, 30]) == {
        12: False,
        15: False,
        30: False,
    }
    assert fires(tmp_path, BROKEN, difference("0x10 -2x60"), [15, 17]) == {15: False, 17: True}
