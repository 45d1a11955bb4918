"""The same as files: Grafana's provisioning, and ConfigMaps for the sidecar of its chart."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from dashboards.grafana.alerting import rule_group
from dashboards.grafana.push import FOLDER_TITLE, FOLDER_UID, packaged_dashboards

_PROVIDER = {
    "apiVersion": 1,
    "providers": [
        {
            "name": "groundwatch",
            "folder": FOLDER_TITLE,
            "folderUid": FOLDER_UID,
            "type": "file",
            "allowUiUpdates": False,
            "options": {"path": "/var/lib/grafana/dashboards/groundwatch"},
        }
    ],
}


def written(folder: Path, prometheus_uid: str) -> list[Path]:
    """Write all files below `folder` and return them.

    provisioning/ goes to Grafana's folder of that name, dashboards/ to the place its provider
    names, prometheus/ to the rule files of Prometheus, kubernetes/ to kubectl apply.

    Args:
        folder: made if it is not there; files of the same names are replaced.
        prometheus_uid: of the data source that the alert rules ask.
    """
    dashboards = {
        f"{one['uid']}.json": json.dumps(one, indent=1, ensure_ascii=False) + "\n"
        for one in packaged_dashboards()
    }
    rules = resources.files("dashboards") / "rules"
    recording, alerts = (
        (rules / f"{name}.yml").read_text("utf-8") for name in ("recording", "alerts")
    )
    alerting = _yaml({"apiVersion": 1, "groups": [_provisioned(prometheus_uid)]})
    files = {
        "provisioning/dashboards/groundwatch.yaml": _yaml(_PROVIDER),
        "provisioning/alerting/groundwatch.yaml": alerting,
        **{f"dashboards/{name}": text for name, text in dashboards.items()},
        "prometheus/recording.yml": recording,
        "prometheus/alerts.yml": alerts,
        "kubernetes/dashboards.yaml": _yaml(
            *(_dashboard_map(name, text) for name, text in dashboards.items())
        ),
        "kubernetes/grafana-alerts.yaml": _yaml(
            _map("groundwatch-alerts", {"groundwatch-alerts.yaml": alerting}, "grafana_alert")
        ),
        "kubernetes/prometheus-rules.yaml": _yaml(_operator_rules((recording, alerts))),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def _provisioned(prometheus_uid: str) -> dict[str, Any]:
    """Return the rule group as files say it: another spelling than that of the API."""
    group = rule_group(FOLDER_UID, prometheus_uid)
    own = ("folderUID", "ruleGroup")
    return {
        "orgId": 1,
        "name": group["title"],
        "folder": FOLDER_TITLE,
        "interval": f"{group['interval']}s",
        "rules": [{k: v for k, v in rule.items() if k not in own} for rule in group["rules"]],
    }


def _dashboard_map(name: str, text: str) -> dict[str, Any]:
    found = _map(name.removesuffix(".json"), {name: text}, "grafana_dashboard")
    found["metadata"]["annotations"] = {"grafana_folder": FOLDER_TITLE}
    return found


def _map(name: str, data: dict[str, str], label: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "labels": {label: "1", "app.kubernetes.io/part-of": "groundwatch"},
        },
        "data": {key: LiteralScalarString(text) for key, text in data.items()},
    }


def _operator_rules(texts: Sequence[str]) -> dict[str, Any]:
    groups = [group for text in texts for group in YAML(typ="safe").load(text)["groups"]]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "groundwatch",
            "labels": {"app.kubernetes.io/part-of": "groundwatch"},
        },
        "spec": {"groups": groups},
    }


def _yaml(*documents: dict[str, Any]) -> str:
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 100_000
    yaml.dump_all(documents, text)
    return text.getvalue()
