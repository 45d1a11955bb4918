"""Runs and decisions as files: valid, whole, and deaf to what is written in questions."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from collector.config import GateConfig
from collector.evaluation.documents import render_decision, render_run, worst
from collector.evaluation.folder import RunFolder
from collector.evaluation.gate import decide
from collector.evaluation.kept import kept_runs
from collector.evaluation.report import summary
from tests.fakes.evaluated import an_eval_row, an_eval_run, run_of

HOSTILE = "a|b <script>x</script> & \x00\x1b[2J\ufffe]]> [c](http://d) \u202e*e*"
ROWS = [
    an_eval_row(1, measures={"faithfulness": 1.0, "latency_ms": 5.0}, diagnosis="working"),
    an_eval_row(
        2,
        HOSTILE,
        measures={"faithfulness": 0.25, "correctness": 0.0},
        diagnosis="context_ignored",
        advice=HOSTILE,
    ),
    an_eval_row(3, failures={"faithfulness": HOSTILE}, error=HOSTILE),
    an_eval_row(4, measures={"faithfulness": 0.5}),
]
REPORT = summary(an_eval_run(HOSTILE, target=HOSTILE), ROWS)


def test_junit_is_valid_and_tells_wrong_unanswered_and_unknown_apart() -> None:
    root = ElementTree.fromstring(render_run(REPORT, ROWS, "junit").encode())
    (suite,) = root
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    outcome = {case.get("name"): [child.tag for child in case] for case in suite}
    assert outcome == {"q1": [], "q2": ["failure"], "q3": ["error"], "q4": ["skipped"]}
    (failure,) = suite.iter("failure")
    assert str(failure.get("message")).startswith("Question 2? context_ignored: a|b <script>")


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)


def test_html_shows_hostile_texts_and_plots_every_interval() -> None:
    text = render_run(REPORT, ROWS, "html")
    tags = Tags()
    tags.feed(text)
    assert "script" not in tags.names
    assert "&lt;script&gt;" in text
    for sign in "\x00\x1b\u202e":
        assert sign not in text
    means = [m["mean"] for g in REPORT["groups"] for n, m in g["measures"].items() if n[0] != "l"]
    assert text.count("<svg") == sum(mean is not None for mean in means)


def test_markdown_keeps_the_columns_of_its_tables() -> None:
    run = run_of("old", {"recall@5": [1.0] * 30 + [0.0] * 30}, ["a|b"] * 30 + ["c"] * 30)
    decision = render_decision(decide(run, run, GateConfig()), "md")
    for text in (render_run(REPORT, ROWS, "md"), decision):
        width = 0
        for line in text.splitlines():
            columns = line.replace("\\|", "").count("|") if line.startswith("|") else 0
            assert width in (0, columns) or not columns, line
            width = columns
    assert "<script>" not in render_run(REPORT, ROWS, "md").replace("\\<", "")
    assert decision.startswith("# Blocked: old to old\n")
    assert "\n- recall\\@5 in c is 0.000 on 30 questions, below its floor of 0.75\n" in decision


@pytest.mark.parametrize("passes", [True, False])
def test_the_gate_as_junit_fails_once_for_each_reason(passes: bool) -> None:
    old = run_of("old", {"mrr": [1.0] * 60}, ["lookup"] * 60)
    new = run_of("new", {"mrr": [float(passes)] * 60}, ["lookup"] * 60)
    found = decide(old, new, GateConfig(measures=["mrr"], floors={}))
    (suite,) = ElementTree.fromstring(render_decision(found, "junit").encode())
    assert suite.get("failures") == str(len(found.blocked))
    assert (suite.get("tests"), passes) == (str(max(1, len(found.blocked))), found.passed)


def test_the_worst_questions_are_named_worst_first_without_those_that_are_right() -> None:
    assert [row.question_id for row in worst(ROWS)] == ["q3", "q2", "q4"]
    synthetic = [msgspec.structs.replace(row, synthetic=True) for row in ROWS]
    assert worst(synthetic) == []


def test_runs_are_listed_oldest_first_with_what_can_be_said_of_each(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "done", an_eval_run("done", revision="abc")) as folder:
        folder.finish(summary(folder.run, ROWS))
    RunFolder.create(tmp_path / "begun", an_eval_run("begun")).__exit__()
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/run.json").write_text("{")
    (tmp_path / "no run").mkdir()
    listed = {one.run: one for one in kept_runs(tmp_path)}
    states = {name: one.state for name, one in listed.items()}
    assert states == {"begun": "unfinished", "done": "finished", "torn": "unreadable"}
    done = listed["done"]
    assert (done.questions, done.revision) == (4, "abc")
    assert done.means["faithfulness"] == pytest.approx((1.0 + 0.25 + 0.5) / 3)
    assert kept_runs(tmp_path / "absent") == []
