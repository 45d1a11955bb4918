"""Two runs compared question by question: the reference cases, failures, what is left out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from collector.evaluation.compare import Compared, Comparison, compare
from collector.evaluation.folder import FinishedRun
from tests.fakes.evaluated import an_eval_row, an_eval_run, run_of

ONE = ["lookup"]


def overall(found: Compared, measure: str) -> Comparison:
    (one,) = [one for one in found.overall if one.measure == measure]
    return one


def run_with(name: str, *rows: Any) -> FinishedRun:
    made = [an_eval_row(i, **row) for i, row in enumerate(rows)]
    return FinishedRun(an_eval_run(name), {row.question_id: row for row in made})


def right_or_wrong(lost: int, gained: int, n: int) -> Compared:
    """Return 100 questions of which some changed, as in the reference cases g1 to g4."""
    old = [1.0] * lost + [0.0] * gained + [1.0] * (n - lost - gained)
    new = [0.0] * lost + [1.0] * gained + [1.0] * (n - lost - gained)
    return compare(
        run_of("old", {"correctness": old}, ONE * n), run_of("new", {"correctness": new}, ONE * n)
    )


def test_right_or_wrong_is_mcnemar_with_bonett_and_price() -> None:
    found = overall(right_or_wrong(lost=3, gained=12, n=100), "correctness")
    assert found.p_value == pytest.approx(0.03515625)
    assert (found.low, found.high) == pytest.approx((0.01088102979, 0.1655895584))
    assert found.difference == pytest.approx(0.09)
    assert found.changed == 15
    assert found.verdict == "better"


def test_nothing_changed_is_not_shown_with_what_would_have_been() -> None:
    found = overall(right_or_wrong(lost=10, gained=10, n=100), "correctness")
    assert found.verdict == "no difference that could be shown"
    assert found.detectable is not None
    assert 0.1 < found.detectable < 0.15


def test_scores_in_between_are_sign_flips_with_students_interval() -> None:
    # Reference case g6, 12 questions, and eight more that did not change.
    changes = [0, 0, -0.2, -0.5, 0.1, -0.3, 0, -0.25, -0.1, 0, 0.05, -0.4]
    old = [0.7] * 12
    new = [0.7 + change for change in changes]
    found = overall(
        compare(
            run_of("old", {"faithfulness": old}, ONE * 12),
            run_of("new", {"faithfulness": new}, ONE * 12),
        ),
        "faithfulness",
    )
    assert found.p_value == pytest.approx(0.046875)
    assert (found.low, found.high) == pytest.approx((-0.2562477998, -0.01041886691))
    assert found.verdict == "too few"


def test_less_is_better_for_refusals_and_times() -> None:
    old = {"wrong_refusal": [1.0] * 12 + [0.0] * 18, "latency_ms": [900.0 + i for i in range(30)]}
    new = {"wrong_refusal": [0.0] * 30, "latency_ms": [990.0 - i for i in range(30)]}
    found = compare(run_of("old", old, ONE * 30), run_of("new", new, ONE * 30))
    assert overall(found, "wrong_refusal").verdict == "better"
    assert overall(found, "latency_ms").verdict == "worse"


def test_segments_are_adjusted_for_each_other() -> None:
    # In each of five segments 6 questions lost, none gained: p = 2/64 alone, 5 * 2/64 among five.
    segments = [f"s{i % 5}" for i in range(150)]
    old = [1.0] * 150
    new = [0.0 if i < 30 else 1.0 for i in range(150)]
    found = compare(
        run_of("old", {"correctness": old}, segments), run_of("new", {"correctness": new}, segments)
    )
    for one in found.segments:
        assert one.p_value == pytest.approx(2 / 64)
        assert one.p_adjusted == pytest.approx(10 / 64)
        assert one.verdict == "no difference that could be shown"
    assert overall(found, "correctness").verdict == "worse"


def test_small_segments_are_not_tested_and_do_not_blunt_the_others() -> None:
    segments = ["large"] * 40 + [f"small {i % 10}" for i in range(50)]
    old = {"correctness": [1.0] * 90}
    new = {"correctness": [0.0] * 6 + [1.0] * 84}
    found = compare(run_of("old", old, segments), run_of("new", new, segments))
    by_name = {one.segment: one for one in found.segments}
    assert by_name["large"].p_adjusted == pytest.approx(2 / 64)
    assert by_name["large"].verdict == "worse"
    assert by_name["small 3"].verdict == "too few"


def test_a_failure_of_one_version_counts_as_worst_there_and_undefined_is_left_out() -> None:
    right = {"measures": {"correctness": 1.0, "wrong_refusal": 0.0}}
    failed = {
        "measures": {"correctness": None, "wrong_refusal": None},
        "failures": {"correctness": "HTTP 500", "wrong_refusal": "HTTP 500"},
        "error": "HTTP 500",
    }
    undefined = {"measures": {"correctness": None}, "undefined": {"correctness": "x"}}
    found = compare(
        run_with("old", right, right, failed, undefined),
        run_with("new", right, failed, failed, right),
    )
    one = overall(found, "correctness")
    assert (one.n, one.old, one.new) == (2, 1.0, 0.5)
    assert (one.failed_old, one.failed_new, one.left_out) == (0, 1, 2)
    assert overall(found, "wrong_refusal").new == 0.5


def test_what_the_judge_failed_on_is_left_out_and_told() -> None:
    right = {"measures": {"correctness": 1.0}}
    unjudged = {
        "measures": {"correctness": None},
        "failures": {"correctness": "budget_exhausted"},
    }
    found = compare(run_with("old", right, right), run_with("new", right, unjudged))
    one = overall(found, "correctness")
    assert (one.n, one.new, one.failed_new, one.left_out) == (1, 1.0, 0, 1)
    assert [note for note in found.notes if "judge failed" in note] == [
        "correctness: 1 questions are left out, as the judge failed on them; "
        "--resume judges them again"
    ]


def test_questions_that_were_labelled_anew_are_left_out() -> None:
    same = {"measures": {"mrr": 1.0}, "labels": "a"}
    other = {"measures": {"mrr": 0.0}, "labels": "b"}
    old_version = {"measures": {"mrr": 0.5}}  # rows of older versions say nothing of labels
    found = compare(run_with("old", same, same, old_version), run_with("new", same, other, same))
    assert (overall(found, "mrr").n, overall(found, "mrr").new) == (2, 1.0)
    assert any("labelled anew" in note for note in found.notes)


def test_two_judges_are_never_compared_and_other_questions_are_left_out() -> None:
    scores = {"faithfulness": [1.0] * 3, "mrr": [1.0] * 3}
    old = run_of("old", scores, ONE * 3)
    new = run_of("new", scores, ONE * 3, fingerprint="openai/m/1/1")
    reworded = msgspec.structs.replace(new.rows["q1"], question="Another question?")
    del new.rows["q0"]
    new.rows["q1"] = reworded
    found = compare(old, new)
    assert [one.measure for one in found.overall] == ["mrr"]
    assert overall(found, "mrr").n == 1
    assert any("lexical-1 and openai/m/1/1" in note for note in found.notes)
    assert any(note.startswith("1 questions are in one") for note in found.notes)
    assert any("reworded" in note for note in found.notes)


def test_another_k_is_said_and_leaves_the_rest_comparable() -> None:
    scores = {"recall@5": [1.0], "mrr": [1.0]}
    found = compare(run_of("old", scores, ONE, k=10), run_of("new", scores, ONE))
    assert {one.measure for one in found.overall} <= {"recall@5", "mrr"}
    assert any("k is 10 and 5" in note for note in found.notes)


def test_synthetic_questions_are_in_no_comparison() -> None:
    run = run_of("a", {"mrr": [1.0, 1.0]}, ONE * 2)
    run.rows["q1"] = msgspec.structs.replace(run.rows["q1"], synthetic=True)
    assert overall(compare(run, run), "mrr").n == 1
