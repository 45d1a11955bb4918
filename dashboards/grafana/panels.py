"""What panels are made of: queries, three kinds of panels, links; thin over the foundation SDK.

A title is a question or a fact, and no panel is made without description, unit and the text it
shows without data. Data sources are always variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders.prometheus import Dataquery as PrometheusBuilder
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

CLICKHOUSE = "grafana-clickhouse-datasource"
PROMETHEUS_SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${prometheus}")
CLICKHOUSE_SOURCE = dashboard.DataSourceRef(type_val=CLICKHOUSE, uid="${clickhouse}")
_TABLE, _SERIES = 1, 0


class Prom(NamedTuple):
    """A PromQL query. The labels named in `legend` are those that each series must have.

    `role` is `band` for the lower end of an interval, whose upper end is the query after it.
    """

    expr: str
    legend: str
    role: str = "line"


class Column(NamedTuple):
    """How a column of a table is shown.

    `link` is a URL with Grafana's field variables, `colours` are those of single values.
    """

    title: str
    unit: str = "none"
    link: str | None = None
    width: int | None = None
    decimals: int | None = None
    colours: Mapping[str, str] | None = None


class ClickHouseQuery(Dataquery, Builder[Dataquery]):
    """SQL as the ClickHouse data source takes it; the SDK does not know this source."""

    def __init__(self, sql: str, *, series: bool) -> None:
        self._sql = sql
        self._format = _SERIES if series else _TABLE

    def build(self) -> Self:
        """Return itself: it is its own builder."""
        return self

    def to_json(self) -> dict[str, object]:
        """Return the target of a panel."""
        return {
            "refId": "A",
            "datasource": {"type": CLICKHOUSE, "uid": "${clickhouse}"},
            "editorType": "sql",
            "queryType": "table" if self._format == _TABLE else "timeseries",
            "format": self._format,
            "rawSql": self._sql,
        }


def stat(
    title: str,
    why: str,
    query: Prom,
    *,
    unit: str,
    no_data: str,
    bad_from: float | None = None,
    bad_below: float | None = None,
    words: Mapping[str, str] | None = None,
    named: bool = False,
    decimals: int | None = None,
    width: int = 4,
) -> Stat:
    """Return one number, red where it is bad, else green.

    `words` stand for single values; where `named`, the legend stands for all of them.
    """
    panel = (
        Stat()
        .title(title)
        .description(why)
        .datasource(PROMETHEUS_SOURCE)
        .unit(unit)
        .no_value(no_data)
        .span(width)
        .height(4)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(bad_from, bad_below))
        .with_target(_target(query, 0, instant=True))
    )
    if decimals is not None:
        panel.decimals(decimals)
    if named:
        panel.text_mode(common.BigValueTextMode.NAME)
    if words:
        panel.mappings([_words(words)])
    return panel


def _words(texts: Mapping[str, str]) -> dashboard.ValueMap:
    results = {
        value: dashboard.ValueMappingResult(text=text, index=index)
        for index, (value, text) in enumerate(texts.items())
    }
    return dashboard.ValueMap(options=results)


def _thresholds(bad_from: float | None, bad_below: float | None) -> builders.ThresholdsConfig:
    first, second = ("red", "green") if bad_below is not None else ("green", "red")
    turn = bad_below if bad_below is not None else bad_from
    steps = [dashboard.Threshold(value=None, color=first if turn is not None else "text")]
    if turn is not None:
        steps.append(dashboard.Threshold(value=turn, color=second))
    return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def series(
    title: str,
    why: str,
    *queries: Prom,
    unit: str,
    no_data: str,
    top: float | None = None,
    bottom: float | None = 0,
    stacked: bool = False,
    repeat: str | None = None,
    width: int = 12,
    height: int = 8,
) -> TimeSeries:
    """Return lines over time; a query of role `band` and the one after it become a shaded band."""
    panel = _lines(title, why, unit, no_data, width, height).datasource(PROMETHEUS_SOURCE)
    if stacked:
        panel.fill_opacity(60)
    if bottom is not None:
        panel.min(bottom)
    if top is not None:
        panel.max(top)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    if repeat is not None:
        panel.repeat(repeat).repeat_direction("h")
    for index, query in enumerate(queries):
        panel.with_target(_target(query, index, instant=False))
        if query.role == "band":
            _shade(panel, index, queries[index + 1].legend)
    return panel


def _shade(panel: TimeSeries, low_index: int, high_legend: str) -> None:
    """Fill between two queries; both are drawn thin, and their names stay out of the legend."""
    thin = [
        dashboard.DynamicConfigValue(id_val="custom.lineWidth", value=0),
        dashboard.DynamicConfigValue(
            id_val="custom.hideFrom", value={"legend": True, "tooltip": False, "viz": False}
        ),
    ]
    # `fillBelowTo` names the other series as it is shown, so its legend has no label in it.
    low, high = _ref(low_index), _ref(low_index + 1)
    panel.override_by_query(low, thin)
    panel.override_by_query(
        high,
        [
            *thin,
            dashboard.DynamicConfigValue(id_val="custom.fillBelowTo", value="low"),
            dashboard.DynamicConfigValue(id_val="custom.fillOpacity", value=20),
        ],
    )
    if high_legend != "high":
        raise ValueError(f"the upper end of a band is called high, not {high_legend}")


def prometheus_table(
    title: str,
    why: str,
    columns: Mapping[str, Column],
    *queries: Prom,
    no_data: str,
    width: int = 24,
    height: int = 9,
) -> Table:
    """Return a table of instant queries, one row per set of labels; query A is `Value #A`."""
    panel = _table(title, why, columns, no_data, width, height).datasource(PROMETHEUS_SOURCE)
    for index, query in enumerate(queries):
        panel.with_target(_target(query, index, instant=True).format(PromQueryFormat.TABLE))
    shown = list(columns)
    return panel.transformations(
        [
            dashboard.DataTransformerConfig(id_val="merge", options={}),
            dashboard.DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": {name: place for place, name in enumerate(shown)},
                    "renameByName": {},
                },
            ),
        ]
    )


def table(
    title: str,
    why: str,
    columns: Mapping[str, Column],
    sql: str,
    *,
    no_data: str,
    width: int = 24,
    height: int = 9,
) -> Table:
    """Return a table of SQL. `columns` names all that the SQL returns, in order."""
    return (
        _table(title, why, columns, no_data, width, height)
        .datasource(CLICKHOUSE_SOURCE)
        .with_target(ClickHouseQuery(sql, series=False))
    )


def sql_series(
    title: str,
    why: str,
    sql: str,
    *,
    unit: str,
    no_data: str,
    top: float | None = None,
    width: int = 12,
    height: int = 8,
) -> TimeSeries:
    """Return lines over time of SQL with the columns `time` and one number each."""
    panel = _lines(title, why, unit, no_data, width, height).datasource(CLICKHOUSE_SOURCE)
    panel.min(0).with_target(ClickHouseQuery(sql, series=True))
    return panel if top is None else panel.max(top)


def _lines(title: str, why: str, unit: str, no_data: str, width: int, height: int) -> TimeSeries:
    return (
        TimeSeries()
        .title(title)
        .description(why)
        .unit(unit)
        .no_value(no_data)
        .span(width)
        .height(height)
        .fill_opacity(0)
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(show_legend=True)
        )
    )


def _table(
    title: str, why: str, columns: Mapping[str, Column], no_data: str, width: int, height: int
) -> Table:
    panel = (
        Table()
        .show_header(show_header=True)
        .title(title)
        .description(why)
        .unit("none")
        .no_value(no_data)
        .span(width)
        .height(height)
    )
    for name, column in columns.items():
        panel.override_by_name(name, _column(column))
    return panel


def _column(column: Column) -> list[dashboard.DynamicConfigValue]:
    told: dict[str, object] = {"displayName": column.title, "unit": column.unit}
    if column.width is not None:
        told["custom.width"] = str(column.width)
    if column.decimals is not None:
        told["decimals"] = column.decimals
    if column.colours is not None:
        found = {
            value: {"color": colour, "index": index}
            for index, (value, colour) in enumerate(column.colours.items())
        }
        told["mappings"] = [{"type": "value", "options": found}]
        told["custom.cellOptions"] = {"type": "color-text"}
    properties = [dashboard.DynamicConfigValue(id_val=k, value=v) for k, v in told.items()]
    if column.link is not None:
        link = {"title": "open", "url": column.link, "targetBlank": True}
        properties.append(dashboard.DynamicConfigValue(id_val="links", value=[link]))
    return properties


def _target(query: Prom, index: int, *, instant: bool) -> PrometheusBuilder:
    target = (
        PrometheusBuilder()
        .expr(query.expr)
        .legend_format(query.legend)
        .ref_id(_ref(index))
        .datasource(PROMETHEUS_SOURCE)
    )
    return target.instant() if instant else target.range()


def _ref(index: int) -> str:
    return chr(ord("A") + index)


Panel = Builder[dashboard.Panel]
