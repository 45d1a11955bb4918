"""What all dashboards share: variables, links, annotations, and how one becomes JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from dashboards.grafana.panels import CLICKHOUSE, PROMETHEUS_SOURCE, ClickHouseQuery, Panel
from dashboards.prometheus_rules import WINDOWS

TAG = "groundwatch"
SELECTED = 'service=~"$service", segment=~"$segment"'
"""Matchers of what is chosen above; add them to every metric that has both labels."""
JUDGED = f'{SELECTED}, judge="$judge"'
RELEASES = (
    "1000 * min by (service, version) (min_over_time("
    'groundwatch_service_version_seen_timestamp_seconds{service=~"$service"}[30d]))'
)
"""When each version was first seen, in milliseconds; a restart or a replica sees it again later."""
REVIEW = "${review}/?since=${__from:date:iso}&until=${__to:date:iso}"
TRACE = "${traces}${__data.fields.trace_id}"


class Row(NamedTuple):
    """A headline and the panels below it."""

    title: str
    panels: Sequence[Panel]


class Page(NamedTuple):
    """One dashboard. `uid` is part of its address and never changes."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    since: str = "now-24h"
    marks: Sequence[dict[str, Any]] = ()
    """Annotations of its own, beside those of all dashboards."""


def built(page: Page) -> dict[str, Any]:
    """Return a dashboard as the JSON that Grafana imports."""
    board = (
        builders.Dashboard(f"groundwatch: {page.title}")
        .uid(page.uid)
        .description(page.description)
        .tags([TAG])
        .time(page.since, "now")
        .timezone("browser")
        .refresh("1m")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(
            builders.DashboardLink("groundwatch")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(as_dropdown=True)
            .keep_time(keep_time=True)
            .include_vars(include_vars=True)
        )
        .link(
            builders.DashboardLink("review page")
            .type(dashboard.DashboardLinkType.LINK)
            .url(REVIEW)
            .target_blank(target_blank=True)
        )
        .variables(_variables())
    )
    for row in page.rows:
        board.with_row(builders.Row(row.title))
        for panel in row.panels:
            board.with_panel(panel)
    found: dict[str, Any] = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    for number, panel in enumerate(found["panels"], start=1):
        panel["id"] = number
    found["annotations"] = {"list": [*_annotations(), *page.marks]}
    return found


def _variables() -> list[Any]:
    sources = [
        builders.DatasourceVariable("prometheus").label("Prometheus").type("prometheus"),
        builders.DatasourceVariable("clickhouse").label("ClickHouse").type(CLICKHOUSE),
    ]
    chosen = [
        _labels("service", "groundwatch_requests_total", "Service"),
        _labels("segment", 'groundwatch_requests_total{service=~"$service"}', "Segment"),
    ]
    judge = (
        builders.QueryVariable("judge")
        .label("Judge")
        .datasource(PROMETHEUS_SOURCE)
        .query("label_values(groundwatch_judge_info, judge)")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(multi=False)
        .include_all(include_all=False)
    )
    window = (
        builders.CustomVariable("window")
        .label("Window of each point")
        .values(",".join(WINDOWS))
        .options([_option(name, chosen=name == "1d") for name in WINDOWS])
        .current(_option("1d", chosen=True))
        .multi(multi=False)
        .include_all(include_all=False)
    )
    pages = [
        builders.TextBoxVariable("review")
        .label("Review page")
        .default_value("http://127.0.0.1:8088")
        .current(_option("http://127.0.0.1:8088", chosen=True)),
        builders.TextBoxVariable("traces")
        .label("Traces at")
        .default_value("http://127.0.0.1:16686/trace/")
        .current(_option("http://127.0.0.1:16686/trace/", chosen=True)),
    ]
    return [*sources, *chosen, judge, window, *pages]


def _labels(name: str, metric: str, label: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(PROMETHEUS_SOURCE)
        .query(f"label_values({metric}, {name})")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(dashboard.VariableOption(selected=True, text="All", value="$__all"))
    )


def _option(value: str, *, chosen: bool) -> dashboard.VariableOption:
    return dashboard.VariableOption(selected=chosen, text=value, value=value)


def _annotations() -> list[dict[str, Any]]:
    """Return what is marked in all panels; the SDK knows no annotations of Prometheus."""
    return [
        _annotation(
            "alerts",
            "red",
            'ALERTS{alertname=~"Groundwatch.+", alertstate="firing"}',
            "{{alertname}}",
            "{{segment}}",
        ),
        _annotation(
            "release",
            "blue",
            RELEASES,
            "{{service}} {{version}}",
            "a new service.version",
        )
        | {"useValueForTime": True},
        _annotation(
            "judge changed",
            "purple",
            "max by (judge) (groundwatch_judge_info)"
            " unless on (judge) max by (judge) (groundwatch_judge_info offset 5m)"
            " and on () max(groundwatch_judge_info offset 5m)",
            "another judge",
            "{{judge}}",
        ),
    ]


def sql_annotation(name: str, colour: str, sql: str) -> dict[str, Any]:
    """Return what SQL with the columns time, title, text and tags marks."""
    return {
        "name": name,
        "datasource": {"type": CLICKHOUSE, "uid": "${clickhouse}"},
        "enable": True,
        "iconColor": colour,
        "target": ClickHouseQuery(sql, series=False).to_json() | {"refId": "annotation"},
    }


def _annotation(name: str, colour: str, expr: str, title: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "datasource": {"type": "prometheus", "uid": "${prometheus}"},
        "enable": True,
        "iconColor": colour,
        "expr": expr,
        "step": "60s",
        "titleFormat": title,
        "textFormat": text,
    }
