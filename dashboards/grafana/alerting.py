"""Prometheus alert rules as rules that Grafana itself evaluates.

As in Grafana's own converter, the expression is asked for, and any number that comes back is an
alert: Prometheus' rules filter, and what they let through may be 0 or less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboards import alert_rules

GROUP = "groundwatch-alerts"
_MINUTE = 60
_LOOK_BACK_SECONDS = 600
_MATH = "is_number($A) || is_nan($A) || is_inf($A)"


def rule_group(folder_uid: str, prometheus_uid: str) -> dict[str, Any]:
    """Return the group of all alert rules as Grafana's provisioning API takes it.

    Args:
        folder_uid: of the folder it lies in.
        prometheus_uid: of the data source that is asked.
    """
    (group,) = alert_rules.rules()["groups"]
    rules = [_rule(rule, folder_uid, prometheus_uid) for rule in group["rules"]]
    return {"title": GROUP, "folderUid": folder_uid, "interval": _MINUTE, "rules": rules}


def _rule(rule: Mapping[str, Any], folder_uid: str, prometheus_uid: str) -> dict[str, Any]:
    asked = {"refId": "A", "expr": rule["expr"], "instant": True, "range": False}
    math = {"refId": "B", "type": "math", "expression": _MATH}
    over = {
        "refId": "C",
        "type": "threshold",
        "expression": "B",
        "conditions": [{"evaluator": {"type": "gt", "params": [0]}}],
    }
    more = {"keep_firing_for": rule["keep_firing_for"]} if "keep_firing_for" in rule else {}
    return {
        "uid": rule["alert"].lower()[:40],
        "title": rule["alert"],
        "folderUID": folder_uid,
        "ruleGroup": GROUP,
        "condition": "C",
        "for": rule["for"],
        **more,
        # A rule that finds nothing is a rule with nothing to say.
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": dict(rule["labels"]),
        "annotations": {
            name: text.replace("$value", "$values.A.Value")
            for name, text in rule["annotations"].items()
        },
        "data": [
            _query(asked, prometheus_uid, _LOOK_BACK_SECONDS),
            _query(math, "__expr__", 0),
            _query(over, "__expr__", 0),
        ],
    }


def _query(model: dict[str, Any], source: str, seconds: int) -> dict[str, Any]:
    return {
        "refId": model["refId"],
        "datasourceUid": source,
        "relativeTimeRange": {"from": seconds, "to": 0},
        "model": model,
    }
