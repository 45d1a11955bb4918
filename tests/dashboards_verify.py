"""Runs every query of every dashboard against a real Prometheus and ClickHouse's engine.

python -m tests.dashboards_verify writes dashboards/grafana/VERIFIED.md and fails where a query
errs, or where a panel does not get the labels or columns that it shows.

The data are those of the demo, run twice on the same folder, so that there is a restart; of two
runs of its golden set, with what the gate says of them; of labels for claims of its judge; and of
one golden candidate.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from ruamel.yaml import YAML

import collector.demo
from collector.demo.assistant import Assistant
from dashboards import alert_rules, prometheus_rules
from scorers.lexical import FINGERPRINT
from sinks import golden_file
from sinks.connection import READER_SETTINGS, connect
from tests.grafana_queries import FOLDER, Choice, PanelQuery, promql, queries, sql
from tests.prometheus_server import Prometheus

EVIDENCE = FOLDER.parent / "VERIFIED.md"
CHOICE = Choice(judge=FINGERPRINT)
_GOLDEN = Path(collector.demo.__file__).parent / "golden.yaml"
_LOOK_BACK_SECONDS = 20
_GAP_SECONDS = 20
_NO_DATA = "no data"
_COMMAND = (sys.executable, "-m", "collector")


class Result(NamedTuple):
    """What one query returned. `problem` is empty where the panel gets all that it shows."""

    query: PanelQuery
    rows: int
    problem: str


@contextmanager
def demo(
    folder: Path,
    *options: str,
    until: str = "Traffic goes on",
    command: Sequence[str] = _COMMAND,
) -> Iterator[tuple[dict[str, str], subprocess.Popen[str]]]:
    """Run `groundwatch demo` with its data in `folder`/demo, and yield once it says `until`."""
    process = subprocess.Popen(
        [*command, "demo", "--data-dir", str(folder / "demo"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    )
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if until in line:
                break
        else:
            raise AssertionError(said)
        yield json.loads((folder / "demo" / "agent.json").read_text()), process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def verify(folder: Path, *, whole: bool = True) -> list[Result]:
    """Return the result of every query, on data of a demo that this runs.

    Args:
        folder: an empty one, for all that the demo keeps.
        whole: with an earlier run of the demo, runs of the golden set, labels and a candidate.
    """
    asked = list(queries())
    since = datetime.now(UTC) - timedelta(minutes=10)
    if whole:
        subprocess.run(
            [*_COMMAND, "demo", "--once", "--data-dir", folder / "demo"],
            check=True,
            capture_output=True,
            timeout=300,
        )
    with demo(folder) as (urls, _):
        target = urls["metrics"].removeprefix("http://").removesuffix("/metrics")
        with Prometheus(folder, [target], rules(folder)) as prometheus:
            if whole:
                golden_runs(folder)
                label(folder)
            _send_rubbish(urls)
            _wait_for_evidence(prometheus)
            live = [_ask_prometheus(prometheus, q) for q in asked if q.language == "promql"]
    client = connect(f"chdb://{folder / 'demo' / 'clickhouse'}", dict(READER_SETTINGS))
    if whole:
        client.command(
            "INSERT INTO candidates VALUES ('c', now64(6), 'e', 'proposed', 'somebody', NULL, '{}')"
        )
    until = datetime.now(UTC) + timedelta(minutes=1)
    stored = [_ask_store(client, q, since, until) for q in asked if q.language == "sql"]
    client.close()
    order = {q: place for place, q in enumerate(asked)}
    return sorted([*live, *stored], key=lambda result: order[result.query])


def rules(folder: Path) -> Path:
    """Write all rules into one file, evaluated every second."""
    groups = [*prometheus_rules.rules()["groups"], *alert_rules.rules()["groups"]]
    path = folder / "rules.yml"
    scaled = [group | {"interval": "1s"} for group in groups]
    YAML(typ="safe", pure=True).dump({"groups": scaled}, path)
    return path


def _groundwatch(folder: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [*_COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != code:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


def golden_runs(folder: Path) -> None:
    """Measure the assistant with its planted failures and the mended one, and ask the gate."""
    (folder / "groundwatch.yaml").write_text("data_dir: demo\n")
    shutil.copy(_GOLDEN, folder / "golden.yaml")
    for name, fixed in (("mended", True), ("planted", False)):
        assistant = Assistant(fixed=fixed)
        answers = []
        for row in golden_file.load(_GOLDEN):
            given = assistant.answer(row.question)
            documents = [
                {"document_id": hit.page.page_id, "text": hit.page.text} for hit in given.context
            ]
            answers.append({"id": row.id, "answer": given.answer, "documents": documents})
        (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
        words = ("--results", "answers.jsonl", "--run", name, "-c", "groundwatch.yaml")
        _groundwatch(folder, "eval", "golden.yaml", *words)
    _groundwatch(folder, "gate", "planted", "mended", "-c", "groundwatch.yaml")
    _groundwatch(folder, "gate", "mended", "planted", "-c", "groundwatch.yaml", code=1)


def label(folder: Path) -> None:
    """Label some claims of the demo's judge."""
    sampled = _groundwatch(folder, "labels", "sample", "--data-dir", "demo", "--limit", "20")
    claims = [json.loads(line) for line in sampled.splitlines()]
    labelled = [claim | {"verdict": "SUPPORTED", "labeller": "somebody"} for claim in claims]
    (folder / "claims.jsonl").write_text("\n".join(map(json.dumps, labelled)))
    _groundwatch(folder, "labels", "import", "claims.jsonl", "--data-dir", "demo")


def _send_rubbish(urls: dict[str, str]) -> None:
    """Be refused once, so that there is something to show."""
    answer = httpx.post(
        f"{urls['otlp_http']}/v1/traces",
        content=b"rubbish",
        headers={"content-type": "application/x-protobuf"},
        timeout=10,
        trust_env=False,
    )
    assert answer.status_code == 400, answer.text


def _wait_for_evidence(prometheus: Prometheus) -> None:
    deadline = time.monotonic() + 90
    while not prometheus.query("groundwatch_faithfulness_evidence"):
        assert time.monotonic() < deadline, "the agent showed no evidence"
        time.sleep(0.5)
    time.sleep(_LOOK_BACK_SECONDS + 5)  # at all its steps a range shall find something


def _ask_prometheus(prometheus: Prometheus, query: PanelQuery) -> Result:
    """Ask until there are data: on a busy machine a scrape fails, which leaves a gap."""
    deadline = time.monotonic() + _GAP_SECONDS
    while True:
        result = _asked_prometheus(prometheus, query)
        if result.problem != _NO_DATA or time.monotonic() > deadline:
            return result
        time.sleep(0.5)


def _asked_prometheus(prometheus: Prometheus, query: PanelQuery) -> Result:
    """Ask as Grafana does: at the end of the range, or over it."""
    end = time.time()
    how = (
        {"time": end}
        if query.instant
        else {"start": end - _LOOK_BACK_SECONDS, "end": end, "step": 5}
    )
    answer = httpx.get(
        f"{prometheus.url}/api/v1/query{'' if query.instant else '_range'}",
        params={"query": promql(query.text, CHOICE), **how},
        timeout=30,
        trust_env=False,
    ).json()
    if answer["status"] != "success":
        return Result(query, 0, answer["error"])
    found = answer["data"]["result"]
    values = [s["value"] if query.instant else s["values"][-1] for s in found]
    return Result(query, len(found), _problem(found, [value for _, value in values], query))


def _problem(found: list[dict[str, Any]], values: Sequence[str], query: PanelQuery) -> str:
    if not found:
        return "" if query.kind == "annotation" else _NO_DATA  # no alert fires, no judge changes
    if "NaN" in values and not all(value == "NaN" for value in values):
        return ""  # some series of a quantile have nothing yet
    if "NaN" in values:
        return "NaN"
    lacking = {label for s in found for label in query.shown if label not in s["metric"]}
    return f"lacks {', '.join(sorted(lacking))}" if lacking else ""


def _ask_store(client: Any, query: PanelQuery, since: datetime, until: datetime) -> Result:
    try:
        found = client.query(sql(query.text, CHOICE, since, until))
    except Exception as err:  # any refusal of any query is the finding
        return Result(query, 0, str(err).splitlines()[0][:300])
    rows = len(found.result_rows)
    columns = tuple(found.column_names)
    if not rows:
        return Result(query, 0, _NO_DATA)
    if query.kind == "timeseries":
        return Result(query, rows, "" if columns[0] == "time" else "the first column is no time")
    return Result(query, rows, "" if columns == query.shown else f"columns are {columns}")


def table(results: Sequence[Result]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# Every query of every dashboard, run",
        "",
        "Written by `make dashboards-verify`: the demo, run twice, watched by a real Prometheus"
        " with all rules;",
        "PromQL asked there, SQL asked of its store. Rows are series of Prometheus or of a table.",
        "",
        "| dashboard | panel | query | language | rows | labels or columns | result |",
        "|---|---|---|---|---|---|---|",
    ]
    for query, rows, problem in results:
        shown = ", ".join(f"`{name}`" for name in query.shown)
        lines.append(
            f"| {query.dashboard} | {query.panel} | {query.ref} | {query.language} | {rows}"
            f" | {shown} | {problem or 'ok'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Verify, print and write the table; return 1 where a panel does not get what it shows."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = verify(Path(folder))
    text = table(results)
    print(text)
    bad = [result for result in results if result.problem]
    print(f"{len(results)} queries, {len(bad)} with a problem", file=sys.stderr)
    if not bad:
        EVIDENCE.write_text(text)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
