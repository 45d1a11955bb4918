"""Draws each Grafana dashboard from real query results, so that a reader sees what to expect.

python -m tests.dashboard_pictures writes dashboards/pictures/groundwatch-*.png. The data are those
of `groundwatch demo --incident`, watched by a real Prometheus from the start, with two runs of the
golden set. These are renderings, and marked so: Grafana's own panels look nicer.
"""

from __future__ import annotations

import argparse
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from sinks.connection import READER_SETTINGS, connect
from tests.dashboards_verify import CHOICE, demo, golden_runs, label, rules
from tests.grafana_queries import dashboards_as_stored, promql, sql
from tests.prometheus_server import Prometheus

FOLDER = Path(__file__).parents[1] / "dashboards" / "pictures"
_INCIDENT_SECONDS = 60
_INCH_A_COLUMN, _INCH_A_ROW = 0.58, 0.36
_ROWS_SHOWN = 7
_LINES_SHOWN = 8
_COLOURS = {"green": "#2b8a3e", "red": "#c92a2a", "text": "#212529"}

Data = dict[tuple[str, int, str], Any]
"""Results by dashboard, panel and query, as Prometheus returns them, or rows of SQL."""


def main() -> None:
    """Run the demo with its incident, ask everything, draw."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    boards = dashboards_as_stored()
    mpl.use("Agg")
    plt.rcParams |= {"font.size": 7, "axes.spines.top": False, "axes.spines.right": False}
    with tempfile.TemporaryDirectory() as folder:
        data = collected(Path(folder), boards)
    FOLDER.mkdir(exist_ok=True)
    for board in boards:
        drawn(board, data, FOLDER / f"{board['uid']}.png")


def collected(folder: Path, boards: list[dict[str, Any]]) -> Data:
    """Return the results of all queries on data of the demo, from before its incident on."""
    began = time.time()
    data: Data = {}
    with demo(folder, "--incident", until="planted among") as (urls, process):
        target = urls["metrics"].removeprefix("http://").removesuffix("/metrics")
        with Prometheus(folder, [target], rules(folder)) as prometheus:
            assert process.stdout is not None
            for line in process.stdout:
                if "Traffic goes on" in line:
                    break
            golden_runs(folder)
            label(folder)
            time.sleep(_INCIDENT_SECONDS)
            for key, target_ in _targets(boards):
                if "expr" in target_:
                    data[key] = _live(prometheus, target_, began)
    client = connect(f"chdb://{folder / 'demo' / 'clickhouse'}", dict(READER_SETTINGS))
    since, until = datetime.fromtimestamp(began, UTC) - timedelta(minutes=4), datetime.now(UTC)
    for key, target_ in _targets(boards):
        if "rawSql" in target_:
            found = client.query(sql(target_["rawSql"], CHOICE, since, until, step_seconds=15))
            data[key] = [dict(zip(found.column_names, r, strict=True)) for r in found.result_rows]
    client.close()
    return data


def _targets(boards: list[dict[str, Any]]) -> list[tuple[tuple[str, int, str], dict[str, Any]]]:
    return [
        ((board["uid"], panel["id"], target["refId"]), target)
        for board in boards
        for panel in board["panels"]
        for target in panel.get("targets", [])
    ]


def _live(prometheus: Prometheus, target: dict[str, Any], began: float) -> list[dict[str, Any]]:
    end = time.time()
    instant = bool(target.get("instant"))
    how = {"time": end} if instant else {"start": began, "end": end, "step": 2}
    found: list[dict[str, Any]] = httpx.get(
        f"{prometheus.url}/api/v1/query{'' if instant else '_range'}",
        params={"query": promql(target["expr"], CHOICE), **how},
        timeout=30,
        trust_env=False,
    ).json()["data"]["result"]
    return found


def drawn(board: dict[str, Any], data: Data, path: Path) -> None:
    """Draw one dashboard as it is laid out."""
    rows = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in board["panels"]) + 2
    figure = plt.figure(figsize=(24 * _INCH_A_COLUMN, rows * _INCH_A_ROW), facecolor="white")
    head = f"{board['title']}   (rendering of real query results, not a picture of Grafana)"
    figure.text(0.01, 1 - 0.8 / rows, head, fontsize=11, weight="bold", va="center")
    for panel in board["panels"]:
        place = panel["gridPos"]
        top = 1 - (place["y"] + 1.6) / rows
        if panel["type"] == "row":
            figure.text(0.01, top - 0.4 / rows, panel["title"], fontsize=9, color="#495057")
            continue
        left, width = place["x"] / 24, place["w"] / 24
        box = (
            left + 0.036,
            top - (place["h"] - 0.75) / rows,
            width - 0.05,
            (place["h"] - 2.0) / rows,
        )
        axes = figure.add_axes(box)
        title = textwrap.shorten(
            panel["title"].replace("$segment", "each segment"), 12 * place["w"]
        )
        axes.set_title(title, loc="left", fontsize=7.5, weight="bold")
        results = {
            t["refId"]: data[board["uid"], panel["id"], t["refId"]] for t in panel["targets"]
        }
        _DRAW[panel["type"]](axes, panel, results)
    figure.savefig(path, dpi=70)
    plt.close(figure)


def _stat(axes: Axes, panel: dict[str, Any], results: dict[str, Any]) -> None:
    axes.axis("off")
    defaults = panel["fieldConfig"]["defaults"]
    if not results["A"]:
        axes.text(0, 0.4, defaults["noValue"], fontsize=10, color="#868e96")
        return
    value = float(results["A"][0]["value"][1])
    words = (defaults.get("mappings") or [{}])[0].get("options", {})
    text = words.get(f"{value:g}", {}).get("text") or shown(value, defaults["unit"])
    colour = "text"
    for step in defaults["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            colour = step["color"]
    axes.text(0, 0.35, text, fontsize=17, color=_COLOURS[colour])


def _series(axes: Axes, panel: dict[str, Any], results: dict[str, Any]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    legends = {t["refId"]: t.get("legendFormat") for t in panel["targets"]}
    low = None
    count = 0
    for ref, rows in results.items():
        lines = _of_sql(rows) if legends[ref] is None else _of_prometheus(rows, legends[ref] or "")
        for name, times, values in lines:
            if name == "low" and low is None:
                low = dict(zip(times, values, strict=True))
            elif name == "high" and low is not None:
                both = [(t, low[t], v) for t, v in zip(times, values, strict=True) if t in low]
                axes.fill_between(*zip(*both, strict=True), alpha=0.2, color="#1c7ed6")  # type: ignore[arg-type]
            elif name not in ("low", "high"):
                axes.plot(times, values, lw=1.1, label=name if count < _LINES_SHOWN else None)
                count += 1
    axes.yaxis.set_major_formatter(lambda value, _: shown(value, defaults["unit"]))
    axes.xaxis.set_major_formatter(
        lambda value, _: f"{datetime.fromtimestamp(value * 86400, UTC):%H:%M:%S}"
    )
    if defaults.get("max") is not None:
        axes.set_ylim(top=defaults["max"] + 0.005)
    if defaults.get("min") is not None:
        axes.set_ylim(bottom=defaults["min"])
    if count:
        axes.legend(loc="best", fontsize=5.5, frameon=False, ncols=2)


def _of_prometheus(rows: list[dict[str, Any]], legend: str) -> list[tuple[str, list[Any], Any]]:
    found = []
    for row in rows:
        name = legend
        for label_, value in row["metric"].items():
            name = name.replace("{{" + label_ + "}}", value)
        points = [(datetime.fromtimestamp(t, UTC), float(v)) for t, v in row["values"]]
        found.append((name, [t for t, _ in points], [v for _, v in points]))
    return found


def _of_sql(rows: list[dict[str, Any]]) -> list[tuple[str, list[Any], Any]]:
    """Return a line per number column, or per text where there is a column of texts."""
    lines: dict[str, tuple[list[Any], list[Any]]] = {}
    for row in rows:
        texts = [value for value in row.values() if isinstance(value, str)]
        for column, value in row.items():
            if column != "time" and not isinstance(value, str):
                times, values = lines.setdefault(" ".join(texts) or column, ([], []))
                times.append(row["time"])
                values.append(value)
    return [(name, times, values) for name, (times, values) in lines.items()]


def _table(axes: Axes, panel: dict[str, Any], results: dict[str, Any]) -> None:
    axes.axis("off")
    columns = {
        one["matcher"]["options"]: {p["id"]: p["value"] for p in one["properties"]}
        for one in panel["fieldConfig"]["overrides"]
    }
    rows = results["A"] if "rawSql" in panel["targets"][0] else _merged(results)
    rows = rows[:_ROWS_SHOWN] if panel["gridPos"]["h"] > 8 else rows[: _ROWS_SHOWN - 1]
    if not rows:
        axes.text(0, 0.8, panel["fieldConfig"]["defaults"]["noValue"], color="#868e96")
        return
    width = max(8, int(panel["gridPos"]["w"] * 7.5 / len(columns)))
    cells = [
        [
            textwrap.shorten(shown(r.get(n), c["unit"]), width, placeholder="…")
            for n, c in columns.items()
        ]
        for r in rows
    ]
    heads = [c["displayName"] for c in columns.values()]
    made = axes.table(cells, colLabels=heads, loc="upper left", cellLoc="left", edges="horizontal")
    made.auto_set_font_size(value=False)
    made.set_fontsize(6)
    made.auto_set_column_width(list(range(len(columns))))


def _merged(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Join instant queries by their labels, as the panel's transformation does."""
    found: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for ref, rows in results.items():
        for row in rows:
            labels = row["metric"]
            one = found.setdefault(tuple(sorted(labels.items())), dict(labels))
            one[f"Value #{ref}"] = float(row["value"][1])
    return list(found.values())


def shown(value: Any, unit: str) -> str:
    """Return a value as Grafana shows it in this unit, roughly."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return " ".join(str(value).split()).replace("$", r"\$")
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit == "currencyUSD":
        return rf"\${value:.2f}"
    if unit == "bytes":
        return f"{value / 1024:.0f} KiB" if value < 1024**2 else f"{value / 1024**2:.1f} MiB"
    if unit == "s":
        return f"{value:.3g} s"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.3g}"


_DRAW: Mapping[str, Callable[[Axes, dict[str, Any], dict[str, Any]], None]] = {
    "stat": _stat,
    "timeseries": _series,
    "table": _table,
}


if __name__ == "__main__":
    main()
