"""What `groundwatch gate` says reaches the store, and a store that is away changes no decision."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from collector.cli import app
from tests.fakes.openai_server import refused_port
from tests.processes import AgentProcess

QUESTIONS = 30
SHOWN = """
import json, sys
from datetime import UTC, datetime, timedelta
from dashboards.grafana.quality import sql as written
from sinks.connection import READER_SETTINGS, connect
from tests.grafana_queries import Choice, sql
client = connect(f"chdb://{sys.argv[1]}", READER_SETTINGS)
now = datetime.now(UTC) + timedelta(minutes=1)
text = sql(written("gate_results"), Choice(judge="j"), now - timedelta(hours=1), now)
print(json.dumps([row | {"time": None} for row in client.query(text).named_results()]))
client.close()
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with a golden set and the answers of a version that lost all its pages."""
    golden = [{"id": f"q{n}", "question": "Who?", "gold_sources": ["p"]} for n in range(QUESTIONS)]
    (tmp_path / "golden.json").write_text(json.dumps(golden))
    for name, page in (("before", "p"), ("after", "other")):
        answers = [{"id": row["id"], "answer": "Ana.", "documents": [page]} for row in golden]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, answers)))
    return tmp_path


def groundwatch(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "-c", str(folder / "groundwatch.yaml")])


def measure(folder: Path) -> None:
    """Make both runs; they stay out of the store."""
    for name in ("before", "after"):
        answers = ("--results", str(folder / f"{name}.jsonl"), "--run", name)
        more = ("--tier", "retrieval", "--no-store")
        done = groundwatch(folder, "eval", str(folder / "golden.json"), *answers, *more)
        assert done.exit_code == 0, done.output


def shown(folder: Path) -> list[dict[str, Any]]:
    """Return what the dashboard shows, read in a process of its own."""
    script = [sys.executable, "-c", SHOWN, str(folder.resolve())]
    root = Path(__file__).parents[2]
    done = subprocess.run(script, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_what_the_gate_says_goes_to_the_agent_that_holds_the_store_once(runs: Path) -> None:
    with AgentProcess(runs, {}):
        measure(runs)
        gated = [
            groundwatch(runs, "gate", *two)
            for two in (("before", "after"), ("before", "after"), ("after", "before"))
        ]
    assert [(one.exit_code, one.stderr) for one in gated] == [(1, ""), (1, ""), (0, "")]
    passed, blocked = shown(runs / "data" / "clickhouse")
    assert (passed["old_run"], passed["new_run"]) == ("after", "before")
    assert (blocked["old_run"], blocked["new_run"]) == ("before", "after")
    assert (passed["result"], blocked["result"]) == ("passed", "blocked")
    assert f"recall@5 went from 1.000 to 0.000 on {QUESTIONS} questions" in blocked["why"]


def test_a_store_that_is_away_changes_no_decision(runs: Path) -> None:
    url = f"http://127.0.0.1:{refused_port()}/groundwatch"
    config = {"data_dir": str(runs / "data"), "store": {"url": url}}
    (runs / "groundwatch.yaml").write_text(json.dumps(config))
    measure(runs)
    blocked = groundwatch(runs, "gate", "before", "after")
    passed = groundwatch(runs, "gate", "after", "before")
    assert (blocked.exit_code, passed.exit_code) == (1, 0)
    assert "the decision stands, but it is not kept: store" in passed.stderr
    assert groundwatch(runs, "gate", "after", "before", "--no-store").stderr == ""
