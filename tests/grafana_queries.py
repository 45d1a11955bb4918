"""The queries of the Grafana dashboards, as Grafana sends them: variables and macros filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import dashboards.grafana

FOLDER = Path(dashboards.grafana.__file__).parent / "json"
ALL = "$__all"
_VARIABLE = re.compile(r"\$\{(\w+)(?::(\w+))?\}|\$(\w+)")
_LABEL = re.compile(r"\{\{(\w+)\}\}")


class Choice(NamedTuple):
    """What a person has chosen above the panels: `$__all`, or values."""

    judge: str
    window: str = "1h"
    service: str | tuple[str, ...] = ALL
    segment: str | tuple[str, ...] = ALL


class PanelQuery(NamedTuple):
    """One query of one panel, with the labels or columns that the panel shows."""

    dashboard: str
    panel: str
    ref: str
    language: str
    text: str
    shown: tuple[str, ...]
    instant: bool
    kind: str


def dashboards_as_stored() -> list[dict[str, Any]]:
    """Return all dashboards, in order of their file names."""
    return [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a dashboard without the headlines."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries() -> Iterator[PanelQuery]:
    """Yield every query of every panel and of every annotation of every dashboard."""
    for dashboard in dashboards_as_stored():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield _query(dashboard["title"], panel, target)
        for one in dashboard["annotations"]["list"]:
            yield _marks(dashboard["title"], one)


def _marks(dashboard: str, one: dict[str, Any]) -> PanelQuery:
    where = dashboard.removeprefix("groundwatch: "), f"marks: {one['name']}", "annotation"
    if "target" in one:
        shown = ("time", "title", "text", "tags")
        return PanelQuery(*where, "sql", one["target"]["rawSql"], shown, False, "annotation")
    labels = tuple(_LABEL.findall(one["titleFormat"]))
    return PanelQuery(*where, "promql", one["expr"], labels, False, "annotation")


def _query(dashboard: str, panel: dict[str, Any], target: dict[str, Any]) -> PanelQuery:
    where = dashboard.removeprefix("groundwatch: "), panel["title"], target["refId"]
    if "rawSql" in target:
        named = [o["matcher"]["options"] for o in panel["fieldConfig"].get("overrides", [])]
        return PanelQuery(*where, "sql", target["rawSql"], tuple(named), False, panel["type"])
    labels = tuple(_LABEL.findall(target["legendFormat"]))
    instant = bool(target.get("instant"))
    return PanelQuery(*where, "promql", target["expr"], labels, instant, panel["type"])


def promql(text: str, choice: Choice) -> str:
    """Return a query as the Prometheus data source sends it."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        if name == "__rate_interval":
            return "1m"
        chosen = getattr(choice, name)
        if name in ("judge", "window"):
            return str(chosen).replace("\\", "\\\\").replace('"', '\\"')
        if chosen == ALL:
            return ".*"
        return "(" + "|".join(re.escape(one).replace("\\", "\\\\") for one in chosen) + ")"

    return _VARIABLE.sub(value, text)


def sql(text: str, choice: Choice, since: datetime, until: datetime, step_seconds: int = 60) -> str:
    """Return a query as the ClickHouse data source sends it.

    Macros and formats: github.com/grafana/clickhouse-datasource, README, "Macros".
    """
    start, end = (f"toDateTime({int(at.timestamp())})" for at in (since, until))
    text = _without_conditions(text, choice)
    text = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 >= {start} AND \1 <= {end}", text)
    step = rf"toStartOfInterval(toDateTime(\1), INTERVAL {step_seconds} second)"
    text = re.sub(r"\$__timeInterval\((\w+)\)", step, text)
    text = text.replace("$__fromTime", start).replace("$__toTime", end)

    def value(found: re.Match[str]) -> str:
        chosen = getattr(choice, found[1] or found[3])
        values = (chosen,) if isinstance(chosen, str) else chosen
        assert found[2] == "sqlstring", found[0]
        return ",".join("'" + one.replace("'", "''") + "'" for one in values)

    return _VARIABLE.sub(value, text)


def _without_conditions(text: str, choice: Choice) -> str:
    """Fill in $__conditionalAll(condition, $variable): 1=1 where all values are chosen."""
    macro = re.compile(r"\$__conditionalAll\((\w+ IN \(\$\{\w+:sqlstring\}\)), \$(\w+)\)")
    found = macro.sub(lambda m: "1=1" if getattr(choice, m[2]) == ALL else m[1], text)
    assert "$__conditionalAll" not in found
    return found
