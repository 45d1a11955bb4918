"""A dashboard as a page of HTML: each panel a card, filled with the results of its queries."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

Results = Mapping[tuple[str, int, str], Any]
"""By dashboard, panel and query: what Prometheus returns, or rows of SQL. Panel 0: annotations."""

_ROWS_SHOWN = 8
_NAMES_SHOWN = 12
_PIXELS_A_COLUMN, _PIXELS_AN_INCH = 49.6, 96
_PLOT_HEIGHT = 170
_COLOURS = {"green": "#2b8a3e", "red": "#c92a2a", "orange": "#d9480f", "text": "#212529"}
_MARKS = {"blue": "#1971c2", "red": "#e03131", "purple": "#9c36b5", "orange": "#e8590c"}
_LINES = (
    *("#1f78c1", "#e0752d", "#3f9142", "#ba43a9", "#8f6b32", "#e5ac0e"),
    *("#3bb3c3", "#ea6460", "#705da0", "#7f7f7f", "#9bc53d", "#0a437c"),
)
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "Liberation Sans",
    "font.size": 8.5,
    "axes.edgecolor": "#adb5bd",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e9ecef",
    "xtick.color": "#495057",
    "ytick.color": "#495057",
    "ytick.major.size": 0,
}


class _Line(NamedTuple):
    name: str
    times: list[datetime]
    values: list[float]


class _Mark(NamedTuple):
    name: str
    colour: str
    at: datetime


def page(board: dict[str, Any], results: Results) -> str:
    """Return the HTML of one dashboard, of the width 1240 pixels.

    Args:
        board: the dashboard as Grafana imports it.
        results: of all its queries; a query that is not there has returned nothing.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    marks = list(_marks(board, results))
    return environment.get_template("dashboard_page.html.j2").render(
        title=board["title"],
        marks=list(dict.fromkeys((mark.name, mark.colour) for mark in marks)),
        cards=[card for panel in board["panels"] for card in _cards(board, panel, results, marks)],
    )


def _cards(
    board: dict[str, Any], panel: dict[str, Any], results: Results, marks: Sequence[_Mark]
) -> Iterator[Any]:
    """Yield the card of a panel, or one for each value of the variable that repeats it."""
    if panel["type"] == "row":
        yield {"kind": "row", "title": panel["title"]}
        return
    found = {
        target["refId"]: results.get((board["uid"], panel["id"], target["refId"]), [])
        for target in panel["targets"]
    }
    variable = panel.get("repeat")
    if variable is None:
        yield _card(panel, found, marks)
        return
    values = {row["metric"][variable] for rows in found.values() for row in rows}
    for value in sorted(values):
        own = {
            ref: [row for row in rows if row["metric"][variable] == value]
            for ref, rows in found.items()
        }
        titled = panel | {"title": panel["title"].replace(f"${variable}", value)}
        yield _card(titled, own, marks)


def _card(panel: dict[str, Any], found: dict[str, Any], marks: Sequence[_Mark]) -> dict[str, Any]:
    card = {"kind": panel["type"], "title": panel["title"], "width": panel["gridPos"]["w"]}
    if not any(found.values()):
        return card | {"empty": panel["fieldConfig"]["defaults"]["noValue"]}
    if panel["type"] == "stat":
        return card | _stat(panel, found["A"][0])
    if panel["type"] == "timeseries":
        return card | _series(panel, found, marks)
    return card | _table(panel, found)


# --- Numbers ---------------------------------------------------------------------------------


def _stat(panel: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    defaults = panel["fieldConfig"]["defaults"]
    value = float(result["value"][1])
    words = (defaults.get("mappings") or [{}])[0].get("options", {})
    text = words.get(f"{value:g}", {}).get("text")
    if panel["options"].get("textMode") == "name":
        text = _named(panel["targets"][0]["legendFormat"], result["metric"])
    colour = "text"
    for step in defaults["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            colour = step["color"]
    text = text or shown(value, defaults["unit"], defaults.get("decimals"))
    return {"text": text, "colour": _COLOURS[colour]}


# --- Lines -----------------------------------------------------------------------------------


def _series(panel: dict[str, Any], found: dict[str, Any], marks: Sequence[_Mark]) -> dict[str, Any]:
    legends = {target["refId"]: target.get("legendFormat") for target in panel["targets"]}
    lines = [
        line
        for ref, rows in found.items()
        for line in (_of_sql(rows) if legends[ref] is None else _of_series(rows, legends[ref]))
    ]
    flat = not any(value for line in lines for value in line.values)
    width = panel["gridPos"]["w"] * _PIXELS_A_COLUMN - 40
    size = width / _PIXELS_AN_INCH, _PLOT_HEIGHT / _PIXELS_AN_INCH
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02))
        axes = figure.add_subplot()
        names = _plotted(axes, panel, lines)
        _scaled(axes, panel["fieldConfig"]["defaults"], flat=flat)
        _mark(axes, lines, marks)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True)
    svg = text.getvalue()
    return {"svg": svg[svg.index("<svg") :], "names": names}


def _plotted(axes: Axes, panel: dict[str, Any], lines: list[_Line]) -> list[tuple[str, str]]:
    """Draw lines, a band where there are its two ends, or layers; return names and colours."""
    ends = {line.name: line for line in lines if line.name in ("low", "high")}
    if len(ends) == 2:
        low = dict(zip(ends["low"].times, ends["low"].values, strict=True))
        times = [at for at in ends["high"].times if at in low]
        high = dict(zip(ends["high"].times, ends["high"].values, strict=True))
        band = [low[at] for at in times], [high[at] for at in times]
        axes.fill_between(times, *band, alpha=0.18, color=_LINES[0], lw=0)  # type: ignore[arg-type]
    drawn = [line for line in lines if line.name not in ends]
    custom = panel["fieldConfig"]["defaults"].get("custom", {})
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    below: dict[datetime, float] = {}
    names = [("interval at 95 %", "#c3dcef")] if ends else []
    for line, colour in zip(drawn, _LINES * (1 + len(drawn) // len(_LINES)), strict=False):
        if stacked:
            floor = [below.get(at, 0.0) for at in line.times]
            top = [one + other for one, other in zip(floor, line.values, strict=True)]
            axes.fill_between(line.times, floor, top, color=colour, alpha=0.55, lw=0)  # type: ignore[arg-type]
            below |= dict(zip(line.times, top, strict=True))
        else:
            top = line.values
        axes.plot(line.times, top, lw=1.4, color=colour)  # type: ignore[arg-type]
        names.append((line.name, colour))
    left_out = len(names) - _NAMES_SHOWN
    return names if left_out <= 0 else [*names[:_NAMES_SHOWN], (f"{left_out} more", "#fff")]


def _scaled(axes: Axes, defaults: dict[str, Any], *, flat: bool) -> None:
    unit = defaults["unit"]
    axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(nbins=2 if flat else 5))
    axes.yaxis.set_major_formatter(lambda value, _: shown(value, unit, at_axis=True))
    axes.xaxis.set_major_locator(AutoDateLocator(minticks=3, maxticks=8))  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M:%S"))  # type: ignore[no-untyped-call]
    axes.margins(x=0.01)
    if flat:
        axes.set_ylim(0, 1)
    if defaults.get("max") is not None:
        axes.set_ylim(top=defaults["max"] + 0.01)
    if defaults.get("min") is not None:
        axes.set_ylim(bottom=defaults["min"])


def _marks(board: dict[str, Any], results: Results) -> Iterator[_Mark]:
    """Yield what Grafana would mark in all panels: where each annotation begins."""
    for one in board["annotations"]["list"]:
        for row in results.get((board["uid"], 0, one["name"]), []):
            colour = _MARKS[one["iconColor"]]
            if "time" in row:
                yield _Mark(one["name"], colour, _utc(row["time"]))
                continue
            first = row["values"][0]
            at = float(first[1]) / 1000 if one.get("useValueForTime") else first[0]
            yield _Mark(one["name"], colour, datetime.fromtimestamp(at, UTC))


def _mark(axes: Axes, lines: Sequence[_Line], marks: Sequence[_Mark]) -> None:
    since = min(_utc(at) for line in lines for at in line.times)
    until = max(_utc(at) for line in lines for at in line.times)
    for mark in marks:
        if since <= mark.at <= until:
            axes.axvline(mark.at, color=mark.colour, lw=1, ls=(0, (4, 3)))  # type: ignore[arg-type]


def _utc(at: datetime) -> datetime:
    """Return a time as an aware one; ClickHouse's have no zone and are UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _of_series(rows: list[dict[str, Any]], legend: str) -> list[_Line]:
    found = []
    for row in rows:
        values = [(datetime.fromtimestamp(t, UTC), float(v)) for t, v in row["values"]]
        found.append(_Line(_named(legend, row["metric"]), *_columns(values)))
    return found


def _of_sql(rows: list[dict[str, Any]]) -> list[_Line]:
    """Return a line per number column, or per text where there is a column of texts."""
    points: dict[str, list[tuple[datetime, float]]] = {}
    for row in rows:
        texts = [value for value in row.values() if isinstance(value, str)]
        for column, value in row.items():
            if column != "time" and not isinstance(value, str):
                points.setdefault(" ".join(texts) or column, []).append((row["time"], value))
    return [_Line(name, *_columns(values)) for name, values in points.items()]


def _columns(points: list[tuple[datetime, float]]) -> tuple[list[datetime], list[float]]:
    return [at for at, _ in points], [value for _, value in points]


def _named(legend: str, labels: Mapping[str, str]) -> str:
    for label, value in labels.items():
        legend = legend.replace("{{" + label + "}}", value)
    return legend


# --- Tables ----------------------------------------------------------------------------------


def _table(panel: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    columns = {
        one["matcher"]["options"]: {p["id"]: p["value"] for p in one["properties"]}
        for one in panel["fieldConfig"]["overrides"]
    }
    every = found["A"] if "rawSql" in panel["targets"][0] else _merged(found)
    rows = every[:_ROWS_SHOWN]
    kinds = {name: _kind(rows, name, column) for name, column in columns.items()}
    heads = [{"title": c["displayName"], "kind": kinds[n]} for n, c in columns.items()]
    cells = [[_cell(row.get(n), c, kinds[n]) for n, c in columns.items()] for row in rows]
    return {"heads": heads, "rows": cells, "more": len(every) - len(rows)}


def _kind(rows: Sequence[dict[str, Any]], name: str, column: dict[str, Any]) -> str:
    values = [row[name] for row in rows if row.get(name) is not None]
    link = "link " if "links" in column else ""
    if column["unit"].startswith("dateTime") or all(" " not in str(value) for value in values):
        link += "whole "
    numbers = all(isinstance(v, int | float) for v in values)
    return "number" if numbers and not column["unit"].startswith("dateTime") else link.strip()


def _cell(value: Any, column: dict[str, Any], kind: str) -> dict[str, Any]:
    text = shown(value, column["unit"], column.get("decimals"))
    options = (column.get("mappings") or [{}])[0].get("options", {})
    colour = options.get(text, {}).get("color", "")
    return {"text": text, "kind": kind, "colour": _COLOURS.get(colour, "")}


def _merged(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Join instant queries by their labels, as the panel's transformation does."""
    found: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for ref, rows in results.items():
        for row in rows:
            labels = row["metric"]
            one = found.setdefault(tuple(sorted(labels.items())), dict(labels))
            one[f"Value #{ref}"] = float(row["value"][1])
    return list(found.values())


# --- Units -----------------------------------------------------------------------------------

_BYTES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_DURATIONS = ((86400, "d"), (3600, "h"), (60, "min"))


def shown(value: Any, unit: str, decimals: int | None = None, *, at_axis: bool = False) -> str:
    """Return a value as Grafana shows it in this unit, roughly."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if unit == "dateTimeAsIso":
        return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return " ".join(str(value).split())
    if unit == "percentunit":
        whole = at_axis and abs(100 * value - round(100 * value)) < 1e-6
        digits = decimals if decimals is not None else 0 if whole else 1
        return f"{100 * value:.{digits}f} %"
    if unit == "currencyUSD":
        return f"${value:.{2 if decimals is None else decimals}f}"
    if unit == "bytes":
        return next((f"{value / n:.1f} {u}" for n, u in _BYTES if value >= n), f"{value:.0f} B")
    if unit == "s":
        return _duration(value)
    number = f"{value:,.{decimals}f}" if decimals is not None else _rounded(value)
    return number + {"reqps": " req/s", "cps": " /s"}.get(unit, "")


def _duration(seconds: float) -> str:
    if seconds and abs(seconds) < 1:
        return f"{1000 * seconds:.3g} ms"
    return next(
        (f"{seconds / n:.3g} {u}" for n, u in _DURATIONS if seconds >= n), f"{seconds:.3g} s"
    )


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.3g}"
