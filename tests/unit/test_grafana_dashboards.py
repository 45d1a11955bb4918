"""The dashboards are current, load under Grafana's schema and keep a dashboard linter's rules."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client import CollectorRegistry

from collector.telemetry import Metrics
from dashboards.grafana.__main__ import rendered
from dashboards.prometheus_rules import rules
from tests.grafana_queries import FOLDER, Choice, dashboards_as_stored, panels, promql, queries

DASHBOARDS = dashboards_as_stored()
PANELS = [(d["title"], panel) for d in DASHBOARDS for panel in panels(d)]
TITLES = [
    *("Overview", "Segments", "Judge and spend"),
    *("Pipeline health", "Signals of users", "Golden set and releases"),
]
UID = re.compile(r"\$\{(prometheus|clickhouse)\}")

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda d: d["uid"])
each_panel = pytest.mark.parametrize(
    "panel", [panel for _, panel in PANELS], ids=[f"{d} {p['title']}" for d, p in PANELS]
)


def test_the_files_are_current_and_there_is_one_for_each_theme() -> None:
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == rendered()
    assert {d["title"] for d in DASHBOARDS} == {f"groundwatch: {title}" for title in TITLES}


@each_dashboard
def test_a_dashboard_loads_under_grafanas_schema_and_loses_nothing(
    dashboard: dict[str, Any],
) -> None:
    register_default_plugins()
    loaded = Dashboard.from_json(deepcopy(dashboard))  # it changes what it is given
    again = json.loads(json.dumps(loaded.to_json(), cls=JSONEncoder))
    known = dashboard | {"annotations": again["annotations"]}  # Prometheus' own are not modelled
    assert again == known


@each_dashboard
def test_a_dashboard_can_be_pointed_at_any_source_service_segment_and_window(
    dashboard: dict[str, Any],
) -> None:
    found = {v["name"]: v for v in dashboard["templating"]["list"]}
    assert found["prometheus"]["type"] == found["clickhouse"]["type"] == "datasource"
    assert found["prometheus"]["query"] == "prometheus"
    assert found["clickhouse"]["query"] == "grafana-clickhouse-datasource"
    for name in ("service", "segment"):
        assert found[name]["includeAll"]
        assert found[name]["multi"]
        assert found[name]["allValue"] == ".*"
    windows = [option["value"] for option in found["window"]["options"]]
    assert windows == [group["name"].rpartition("-")[2] for group in rules()["groups"]]
    assert {"judge", "review", "traces"} <= found.keys()


@each_dashboard
def test_no_data_source_is_fixed(dashboard: dict[str, Any]) -> None:
    def sources(value: Any) -> list[Any]:
        if isinstance(value, dict):
            own = [value["datasource"]] if "datasource" in value else []
            return own + [s for one in value.values() for s in sources(one)]
        return [s for one in value for s in sources(one)] if isinstance(value, list) else []

    found = sources(dashboard)
    assert len(found) > 10
    for source in found:
        assert UID.fullmatch(source["uid"]), source


@each_dashboard
def test_ids_are_distinct_and_nothing_overlaps(dashboard: dict[str, Any]) -> None:
    everything = dashboard["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    taken: set[tuple[int, int]] = set()
    for panel in everything:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@each_panel
def test_a_panel_asks_or_says_something_and_explains_itself(panel: dict[str, Any]) -> None:
    assert panel["title"].endswith("?") or panel["title"].startswith("Since when?")
    assert panel["description"].rstrip().endswith(".")
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"]
    assert defaults["noValue"]
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_titles_are_told_apart_within_a_dashboard() -> None:
    for dashboard in DASHBOARDS:
        titles = [panel["title"] for panel in panels(dashboard)]
        assert len(set(titles)) == len(titles)


def test_queries_use_metrics_of_the_catalogue_and_recorded_ones_only() -> None:
    catalogue = Metrics(CollectorRegistry()).catalogue
    known = {row.name for row in catalogue}
    known |= {f"{row.name}_bucket" for row in catalogue if row.kind == "histogram"}
    recorded = {rule["record"] for group in rules()["groups"] for rule in group["rules"]}
    for query in queries():
        if query.language != "promql":
            continue
        text = promql(query.text, Choice(judge="j", window="6h"))
        assert set(re.findall(r"segment:[\w:]+", text)) <= recorded
        rest = re.sub(r"segment:[\w:]+", "", text)
        assert set(re.findall(r"groundwatch_\w+", rest)) <= known, text


def test_counters_are_read_as_increases_and_rates_only() -> None:
    """A counter that is shown raw falls at every restart; the accounting compares two of them."""
    for query in queries():
        if query.language != "promql" or query.panel == "Do all eligible requests add up?":
            continue
        for found in re.finditer(r"groundwatch_\w+_total(\{[^}]*\})?", query.text):
            assert query.text[found.end()] == "[", (query.panel, found[0])


def test_every_query_over_both_labels_obeys_what_is_chosen() -> None:
    """A panel that shows what a person has not chosen misleads."""
    by_traffic = {
        row.name
        for row in Metrics(CollectorRegistry()).catalogue
        if {"service", "segment"} <= set(row.labels)
    }
    of_all = {"groundwatch: Pipeline health", "groundwatch: Judge and spend"}
    for title, panel in PANELS:
        if title in of_all:
            continue
        for target in panel["targets"]:
            for name, matchers in re.findall(
                r"(groundwatch_\w+)(\{[^}]*\})?",
                re.sub(r"segment:[\w:$]+", "", target.get("expr", "")),
            ):
                if name in by_traffic:
                    assert "$service" in matchers, (panel["title"], name)
                    assert "$segment" in matchers, (panel["title"], name)
