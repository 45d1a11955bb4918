"""Reports on a terminal: what comes from others is text, and nothing is said that is not so."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from collector.config import GateConfig
from collector.evaluation import printed
from collector.evaluation.gate import decide
from collector.evaluation.report import summary
from tests.fakes.evaluated import an_eval_row, an_eval_run, run_of


def console() -> Console:
    return Console(file=StringIO(), width=80)


def text_of(shown: Console) -> str:
    assert isinstance(shown.file, StringIO)
    return shown.file.getvalue()


def test_names_of_segments_are_no_markup_and_move_no_cursor() -> None:
    segments = ["[red]lookup\x1b[2J"] * 30 + ["b"] * 30
    run = run_of("same", {"recall@5": [0.0] * 30 + [1.0] * 30}, segments)
    shown = console()
    printed.report(summary(run.run, list(run.rows.values())), shown)
    printed.decision(decide(run, run, GateConfig()), shown)
    assert "[red]lookup" in text_of(shown)
    assert "recall@5 in [red]lookup" in text_of(shown)
    assert "\x1b" not in text_of(shown)


def test_an_undefined_mean_is_blank_and_failures_are_named_with_their_cause() -> None:
    rows = [
        an_eval_row(
            1,
            measures={"correctness": None},
            failures=dict.fromkeys(["faithfulness", "correctness"], "HTTP 500"),
            error="HTTP 500",
        ),
        an_eval_row(2, measures={"correctness": None}, undefined={"correctness": "unanswerable"}),
    ]
    shown = console()
    printed.report(summary(an_eval_run(), rows), shown)
    (line,) = [line for line in text_of(shown).splitlines() if line.startswith("correctness  ")]
    assert line.split() == ["correctness", "0", "1", "1"]
    assert "no answer to 1 of 2 questions: HTTP 500 1" in text_of(shown)
    assert "faithfulness, correctness failed: HTTP 500 1" in text_of(shown)


def test_synthetic_questions_are_reported_apart() -> None:
    rows = [
        an_eval_row(1, measures={"mrr": 0.5}),
        an_eval_row(2, measures={"mrr": 1.0}, synthetic=True),
    ]
    groups = {one["segment"]: one for one in summary(an_eval_run(), rows)["groups"]}
    assert groups["all"]["measures"]["mrr"]["mean"] == 0.5
    assert groups["lookup"]["questions"] == 1
    assert groups["(synthetic)"]["measures"]["mrr"]["mean"] == 1.0


def test_nothing_is_wider_than_a_terminal_of_eighty_columns() -> None:
    segments = ["lookup"] * 30 + ["multi_hop"] * 30
    scores = {"context_precision": [0.25, 0.5] * 30, "latency_ms": [123456.0, 99999.0] * 30}
    old = run_of("old", scores, segments)
    new = run_of("new", {name: v[::-1] for name, v in scores.items()}, segments)
    shown = console()
    printed.compared(decide(old, new, GateConfig()).compared, shown)
    table = text_of(shown).partition("no segment differs")[0].splitlines()
    assert all(len(line) <= 80 for line in table)
    for name in scores:  # nothing is cut
        (line,) = [line for line in table if line.startswith(f"{name} ")]
        assert line.endswith("not shown")
