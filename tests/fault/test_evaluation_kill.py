"""`kill -9` in the middle of a run: resumed, it asks nothing twice that was answered."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.assistants import AssistantServer
from tests.fakes.mtragun import FOLDER, Bm25Assistant, json_lines

pytestmark = pytest.mark.shared

QUESTIONS = 507
CONCURRENCY = 8
CONFIG = f"""\
data_dir: data
evaluation:
  target:
    concurrency: {CONCURRENCY}
    request: "{{id: id, question: question}}"
"""


def groundwatch(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "collector", *words, "-c", "groundwatch.yaml"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def answered(folder: Path) -> set[str]:
    """Return the questions whose answers are on disk, by whole lines."""
    path = folder / "data/evaluations/nightly/answers.jsonl"
    body = path.read_bytes() if path.exists() else b""
    lines = body[: body.rfind(b"\n") + 1].splitlines()
    return {json.loads(line)["question_id"] for line in lines}


def test_a_killed_run_is_resumed_without_asking_twice(tmp_path: Path) -> None:
    golden = FOLDER / "golden.jsonl"
    ids = sorted(row["id"] for row in json_lines(golden))
    assert len(ids) == QUESTIONS
    (tmp_path / "groundwatch.yaml").write_text(CONFIG)
    with AssistantServer(Bm25Assistant()) as assistant:
        begin = ("eval", str(golden), "--target", assistant.url, "--run", "nightly")
        resume = ("eval", "--resume", "nightly")
        tail = ("--tier", "retrieval", "--by", "answerability", "--no-store")
        asked_when_kept: dict[str, int] = {}
        for kill, words in enumerate([(*begin, *tail), (*resume, "--no-store")], start=1):
            process = groundwatch(tmp_path, *words)
            deadline = time.monotonic() + 120
            while len(answered(tmp_path)) < kill * QUESTIONS // 3:
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < deadline
                time.sleep(0.005)
            process.kill()
            process.communicate()
            kept = answered(tmp_path)
            assert asked_when_kept.keys() <= kept
            assert len(kept) < QUESTIONS
            asked_when_kept |= {id_: assistant.asked[id_] for id_ in kept - asked_when_kept.keys()}
        process = groundwatch(tmp_path, *resume, "--no-store", "--json")
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        asked = assistant.asked.copy()

    assert {id_: asked[id_] for id_ in asked_when_kept} == asked_when_kept
    # What was under way when the process died had no answer yet and was asked again.
    assert sum(asked.values()) <= QUESTIONS + 2 * CONCURRENCY
    rows = (tmp_path / "data/evaluations/nightly/rows.jsonl").read_text().splitlines()
    assert sorted(json.loads(row)["question_id"] for row in rows) == ids
