"""What holds for any two runs of a golden set."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.config import GateConfig
from collector.evaluation.compare import Compared, compare
from collector.evaluation.folder import FinishedRun
from collector.evaluation.gate import decide
from tests.fakes.evaluated import an_eval_row, an_eval_run

MEASURES = ("recall@5", "faithfulness", "wrong_refusal", "latency_ms")
SWAPPED = {"better": "worse", "worse": "better"}

values = st.one_of(st.none(), st.sampled_from([0.0, 1.0]), st.floats(0, 1))
row = st.fixed_dictionaries(dict.fromkeys(MEASURES, values))
failed = st.sets(st.sampled_from(MEASURES[:3]))
pairs = st.lists(st.tuples(row, row, failed, failed, st.sampled_from("abc")), max_size=60)


def runs(drawn: list[tuple[object, ...]]) -> tuple[FinishedRun, FinishedRun]:
    made: list[FinishedRun] = []
    for side in (0, 1):
        rows = []
        for number, one in enumerate(drawn):
            measures, causes, segment = one[side], one[2 + side], one[4]
            assert isinstance(measures, dict)
            assert isinstance(causes, set)
            rows.append(
                an_eval_row(
                    number,
                    str(segment),
                    measures={n: None if n in causes else v for n, v in measures.items()},
                    failures=dict.fromkeys(causes, "HTTP 500"),
                    error="HTTP 500" if causes else None,
                )
            )
        made.append(FinishedRun(an_eval_run(f"run{side}"), {r.question_id: r for r in rows}))
    return made[0], made[1]


def told(found: Compared) -> dict[tuple[str, str], tuple[float, str]]:
    return {
        (one.measure, one.segment): (round(one.difference or 0.0, 9), one.verdict)
        for one in [*found.overall, *found.segments]
    }


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_swapping_the_runs_turns_every_finding_round(drawn: list[tuple[object, ...]]) -> None:
    old, new = runs(drawn)
    there, back = told(compare(old, new)), told(compare(new, old))
    assert back == {
        key: (-difference + 0.0, SWAPPED.get(verdict, verdict))
        for key, (difference, verdict) in there.items()
    }


@settings(max_examples=60, deadline=None)
@given(pairs, st.randoms())
def test_the_order_of_the_rows_does_not_matter(
    drawn: list[tuple[object, ...]], rng: object
) -> None:
    old, new = runs(drawn)
    shuffled = list(new.rows.items())
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compare(old, new) == compare(old, FinishedRun(new.run, dict(shuffled)))


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_a_run_is_never_better_or_worse_than_itself(drawn: list[tuple[object, ...]]) -> None:
    run, _ = runs(drawn)
    found = compare(run, run)
    assert {verdict for _, verdict in told(found).values()} <= {
        "no difference that could be shown",
        "too few",
    }
    if found.overall:
        decision = decide(run, run, GateConfig())
        assert all("below its floor" in reason for reason in decision.blocked)


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_every_question_is_compared_or_left_out(drawn: list[tuple[object, ...]]) -> None:
    for one in compare(*runs(drawn)).overall:
        assert one.n + one.left_out == len(drawn)
        assert 0 <= one.p_value <= 1
        if one.low is not None and one.high is not None and one.difference is not None:
            assert one.low <= one.high
