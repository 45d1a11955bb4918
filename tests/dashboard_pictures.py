"""Draws each Grafana dashboard from real query results, so that a reader sees what to expect.

python -m tests.dashboard_pictures writes dashboards/pictures/groundwatch-*.png, with Chromium. The
data are those of `groundwatch demo --incident`, judged by a fake model over HTTP, watched by a real
Prometheus from the start, with two runs of the golden set. These are renderings, and marked so.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import sync_playwright
from starlette.responses import Response

from sinks.connection import READER_SETTINGS, connect
from tests.dashboard_page import Results, page
from tests.dashboards_verify import CHOICE, demo, golden_runs, label, rules
from tests.fakes.openai_server import OpenAIServer, good, rate_limited
from tests.grafana_queries import Choice, dashboards_as_stored, promql, sql
from tests.prometheus_server import Prometheus

FOLDER = Path(__file__).parents[1] / "dashboards" / "pictures"
_INCIDENT_SECONDS = 60
_CITATION = re.compile(r" \[\d+\]")
_WIDTH, _COLOURS = 1240, 256


def main() -> None:
    """Run the demo with its incident, ask everything, draw."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    boards = dashboards_as_stored()
    with tempfile.TemporaryDirectory() as folder:
        results = collected(Path(folder), boards)
    draw(boards, results, FOLDER)


def collected(folder: Path, boards: list[dict[str, Any]]) -> Results:
    """Return the results of all queries on data of the demo, from before its incident on."""
    began = time.time()
    found: dict[tuple[str, int, str], Any] = {}
    choice = CHOICE
    with (
        OpenAIServer(
            [*[_judging] * 40, *[rate_limited("1")] * 6], default=_judging, latency_seconds=0.05
        ) as model,
        demo(
            folder,
            "--incident",
            until="planted among",
            command=(sys.executable, "-m", "tests.demo_with_model", model.base_url),
        ) as (urls, process),
    ):
        target = urls["metrics"].removeprefix("http://").removesuffix("/metrics")
        with Prometheus(folder, [target], rules(folder)) as prometheus:
            assert process.stdout is not None
            for line in process.stdout:
                if "Traffic goes on" in line:
                    break
            golden_runs(folder)
            label(folder)
            time.sleep(_INCIDENT_SECONDS)
            (judge,) = prometheus.query("groundwatch_judge_info")
            choice = choice._replace(judge=judge["metric"]["judge"])
            end = time.time()
            for key, asked in _queries(boards):
                if "expr" in asked:
                    found[key] = _live(prometheus, asked, choice, began, end)
    client = connect(f"chdb://{folder / 'demo' / 'clickhouse'}", dict(READER_SETTINGS))
    since, until = datetime.fromtimestamp(began, UTC) - timedelta(minutes=4), datetime.now(UTC)
    for key, asked in _queries(boards):
        if "rawSql" in asked:
            rows = client.query(sql(asked["rawSql"], choice, since, until, step_seconds=15))
            found[key] = [dict(zip(rows.column_names, r, strict=True)) for r in rows.result_rows]
    client.close()
    return found


async def _judging(body: dict[str, Any]) -> Response:
    """Judge honestly, as a model would: the mark of a citation belongs to no claim."""
    messages = [m | {"content": _CITATION.sub("", m["content"])} for m in body["messages"]]
    return await good()(body | {"messages": messages})


def _queries(boards: list[dict[str, Any]]) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    """Yield what panels ask, and what annotations do, as of panel 0."""
    for board in boards:
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                yield (board["uid"], panel["id"], target["refId"]), target
        for one in board["annotations"]["list"]:
            yield (board["uid"], 0, one["name"]), one.get("target", one)


def _live(
    prometheus: Prometheus, asked: Mapping[str, Any], choice: Choice, began: float, end: float
) -> list[dict[str, Any]]:
    instant = bool(asked.get("instant"))
    how = {"time": end} if instant else {"start": began, "end": end, "step": 2}
    found: list[dict[str, Any]] = httpx.get(
        f"{prometheus.url}/api/v1/query{'' if instant else '_range'}",
        params={"query": promql(asked["expr"], choice), **how},
        timeout=30,
        trust_env=False,
    ).json()["data"]["result"]
    return found


def draw(boards: list[dict[str, Any]], results: Results, folder: Path) -> None:
    """Write a PNG of each dashboard, with few colours so that it is small."""
    folder.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        sheet = browser.new_page(viewport={"width": _WIDTH, "height": 600})
        for board in boards:
            sheet.set_content(page(board, results))
            image = Image.open(io.BytesIO(sheet.screenshot(full_page=True))).convert("RGB")
            small = image.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1)
            small.save(folder / f"{board['uid']}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
