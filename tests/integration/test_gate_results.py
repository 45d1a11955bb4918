"""What `groundwatch gate` says reaches the store, and a store that is away changes no decision."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


def measured(folder: Path, name: str) -> tuple[str, ...]:
    answers = ("--results", str(folder / f"{name}.jsonl"), "--run", name)
    return ("eval", str(folder / "golden.json"), *answers, "--tier", "retrieval", "--no-store")


def shown(folder: Path) -> list[dict[str, Any]]:
    """Return what the dashboard shows, read in a process of its own."""
    script = [sys.executable, "-c", SHOWN, str(folder.resolve())]
    root = Path(__file__).parents[2]
    done = subprocess.run(script, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_what_the_gate_says_goes_to_the_agent_that_holds_the_store_once(runs: Path) -> None:
    with AgentProcess(runs, {}) as agent:
        for name in ("before", "after"):
            done = agent.run_command(*measured(runs, name))
            assert done.returncode == 0, done.stderr
        gated = [
            agent.run_command("gate", *two)
            for two in (("before", "after"), ("before", "after"), ("after", "before"))
        ]
    assert [(one.returncode, one.stderr) for one in gated] == [(1, ""), (1, ""), (0, "")]
    passed, blocked = shown(runs / "data" / "clickhouse")
    assert (passed["new_run"], passed["old_run"], passed["result"]) == (
        *("before", "after"),
        "passed",
    )
    assert (blocked["new_run"], blocked["old_run"], blocked["result"]) == (
        *("after", "before"),
        "blocked",
    )
    assert f"recall@5 went from 1.000 to 0.000 on {QUESTIONS} questions" in blocked["why"]
    for reason in blocked["why"].split("; "):
        assert reason in gated[0].stdout


def test_a_store_that_is_away_changes_no_decision(runs: Path) -> None:
    (runs / "groundwatch.yaml").write_text(
        f"store: {{url: 'http://127.0.0.1:{refused_port()}/groundwatch'}}\n"
    )

    def groundwatch(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "collector", *words, "-c", "groundwatch.yaml"]
        return subprocess.run(
            command, cwd=runs, capture_output=True, text=True, timeout=120, check=False
        )

    for name in ("before", "after"):
        assert groundwatch(*measured(runs, name)).returncode == 0
    blocked = groundwatch("gate", "before", "after")
    passed = groundwatch("gate", "after", "before")
    assert (blocked.returncode, passed.returncode) == (1, 0)
    assert "the decision stands, but it is not kept: store" in passed.stderr
    assert groundwatch("gate", "after", "before", "--no-store").stderr == ""
