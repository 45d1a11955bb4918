"""Provisioning files and Kubernetes manifests hold the same dashboards and rules, and are valid."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from collector.cli import app
from dashboards import alert_rules, prometheus_rules
from dashboards.grafana.push import packaged_dashboards

DASHBOARDS = {one["uid"]: one for one in packaged_dashboards()}
ALERTS = [r["alert"] for group in alert_rules.rules()["groups"] for r in group["rules"]]
CONFIG_MAP_LIMIT = 1024 * 1024
"""Bytes that Kubernetes takes as one ConfigMap."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    done = CliRunner().invoke(
        app, ["dashboards", "files", str(tmp_path / "out"), "--prometheus-uid", "my-prometheus"]
    )
    assert done.exit_code == 0, done.output
    told = sorted(done.stdout.split())
    assert told == sorted(str(p) for p in (tmp_path / "out").rglob("*") if p.is_file())
    return tmp_path / "out"


def documents(path: Path) -> list[Any]:
    return list(YAML(typ="safe").load_all(path.read_text()))


def test_grafana_finds_the_dashboards_where_the_provider_looks(folder: Path) -> None:
    found = {p.stem: json.loads(p.read_text()) for p in (folder / "dashboards").iterdir()}
    assert found == DASHBOARDS
    (provided,) = documents(folder / "provisioning" / "dashboards" / "groundwatch.yaml")
    (provider,) = provided["providers"]
    assert provider["folderUid"] == "groundwatch"
    assert provider["options"]["path"].endswith("/dashboards/groundwatch")


def test_alert_rules_are_provisioned_under_the_named_data_source(folder: Path) -> None:
    (provided,) = documents(folder / "provisioning" / "alerting" / "groundwatch.yaml")
    (group,) = provided["groups"]
    assert (group["orgId"], group["folder"], group["interval"]) == (1, "groundwatch", "60s")
    assert [rule["title"] for rule in group["rules"]] == ALERTS
    for rule in group["rules"]:
        asked, *expressions = rule["data"]
        assert asked["datasourceUid"] == "my-prometheus"
        assert {one["datasourceUid"] for one in expressions} == {"__expr__"}
        assert rule["condition"] == expressions[-1]["refId"]
        # Grafana's $value is a text of all values.
        assert "$value " not in json.dumps(rule["annotations"])


def test_each_dashboard_is_a_config_map_that_the_sidecar_finds(folder: Path) -> None:
    maps = documents(folder / "kubernetes" / "dashboards.yaml")
    for one in maps:
        assert (one["apiVersion"], one["kind"]) == ("v1", "ConfigMap")
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "groundwatch"}
        ((name, text),) = one["data"].items()
        assert json.loads(text) == DASHBOARDS[name.removesuffix(".json")]
        assert len(text.encode()) < CONFIG_MAP_LIMIT / 2
    assert len(maps) == len(DASHBOARDS)
    (alerts,) = documents(folder / "kubernetes" / "grafana-alerts.yaml")
    assert alerts["metadata"]["labels"]["grafana_alert"] == "1"
    (text,) = alerts["data"].values()
    assert text == (folder / "provisioning" / "alerting" / "groundwatch.yaml").read_text()


def test_the_prometheus_operator_gets_all_rules(folder: Path) -> None:
    (rule,) = documents(folder / "kubernetes" / "prometheus-rules.yaml")
    assert rule["kind"] == "PrometheusRule"
    groups = prometheus_rules.rules()["groups"] + alert_rules.rules()["groups"]
    assert rule["spec"]["groups"] == groups


@pytest.mark.prometheus
def test_prometheus_takes_the_rule_files(folder: Path) -> None:
    files = sorted((folder / "prometheus").iterdir())
    assert [file.name for file in files] == ["alerts.yml", "recording.yml"]
    done = subprocess.run(["promtool", "check", "rules", *files], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
