"""Decisions that every replay repeats, independent of upstream samplers."""

from datetime import UTC, datetime
from itertools import combinations

import pytest

from collector.model import Decision, RagRequest, Span, Trace
from collector.sampling import (
    OwnDraw,
    decide,
    head_probability,
    raised,
    uniform,
    with_own_draws,
)

NOW = datetime(2026, 11, 23, tzinfo=UTC)


# Computed with hashlib by hand, not with this code.
@pytest.mark.parametrize(
    ("trace_id", "expected"),
    [
        ("4bf92f3577b34da6a3ce929d0e0e4736", 0.5834503706),
        ("0af7651916cd43dd8448eb211c80319c", 0.9324710498),
        ("00000000000000000000000000000001", 0.8605677896),
        ("ffffffffffffffffffffffffffffffff", 0.3736679902),
    ],
)
def test_the_hash_gives_the_reference_numbers(trace_id: str, expected: float) -> None:
    assert uniform("judge-v1", trace_id) == pytest.approx(expected, abs=1e-10)


def test_sequential_ids_are_spread_evenly() -> None:
    drawn = [uniform("judge-v1", f"{i:032x}") for i in range(20_000)]
    counts = [sum(u < bound for u in drawn) for bound in (0.01, 0.05, 0.2, 0.5)]
    assert counts == [200, 1029, 4101, 10001]


def test_another_salt_draws_another_sample() -> None:
    ids = [f"{i:032x}" for i in range(4_000)]
    both = sum(uniform("a", i) < 0.5 and uniform("b", i) < 0.5 for i in ids)
    assert 890 < both < 1110  # a quarter, ± 4 standard deviations of 27.4


@pytest.mark.parametrize(
    ("trace_state", "probability"),
    [
        ("", 1.0),
        ("vendor=x", 1.0),
        ("ot=th:8", 0.5),
        ("ot=th:c", 0.25),
        ("ot=th:0", 1.0),
        ("a=1, ot=rv:00000000000001;th:e6666666666668", 0.1),
        ("ot=th:nonsense", 1.0),
        ("ot=th:-fff", 1.0),
        ("ot=th:0x8", 1.0),
        ("ot=th:ffffffffffffff", 1e-6),
        ("ot=th:123456789abcdef0", 1.0),
    ],
)
def test_upstream_sampling_is_read_from_the_trace_state(
    trace_state: str, probability: float
) -> None:
    assert head_probability(trace_state) == pytest.approx(probability, abs=1e-9)


def test_the_stored_probability_includes_upstream_sampling() -> None:
    trace = Trace(
        trace_id="ab" * 16,
        spans=[Span(trace_id="ab" * 16, span_id="1" * 16, trace_state="ot=th:8")],
    )
    decision = decide(trace, 0.4, "groundwatch-1", NOW)
    assert decision.probability == pytest.approx(0.2)
    assert decision.sampled == (decision.uniform < 0.4)


def own(scorer: str, rate: float, *, nested: bool = False) -> OwnDraw:
    return OwnDraw(scorer, rate, lambda request: request.question is not None, nested)


def decided(number: int, rate: float = 0.3, trace_state: str = "") -> tuple[Decision, RagRequest]:
    trace_id = f"{number:032x}"
    spans = [Span(trace_id=trace_id, span_id="1" * 16, trace_state=trace_state)]
    decision = decide(Trace(trace_id=trace_id, spans=spans), rate, "judge-v1", NOW)
    return decision, RagRequest(trace_id=trace_id, question="What?")


def test_each_scorer_draws_for_itself() -> None:
    draws = [own("refusal", 0.5), own("answer_relevance", 0.5)]
    found = [with_own_draws(*decided(n, 0.5), draws) for n in range(4_000)]
    assert {tuple(d.scorer_probability.items()) for d in found} == {
        (("refusal", 0.5), ("answer_relevance", 0.5))
    }
    # Of 4,000, ± 4 standard deviations: each a half, any two a quarter.
    drawn = {
        "main": {n for n, d in enumerate(found) if d.sampled},
        **{s: {n for n, d in enumerate(found) if s in d.scorers_drawn} for s, *_ in draws},
    }
    assert all(1_873 < len(ids) < 2_127 for ids in drawn.values())
    for one, other in combinations(drawn.values(), 2):
        assert 890 < len(one & other) < 1_110


def test_what_a_head_sampler_kept_counts_for_every_scorer() -> None:
    decision, request = decided(1, trace_state="ot=th:8")  # kept with probability 1/2
    found = with_own_draws(decision, request, [own("refusal", 0.2)])
    assert found.scorer_probability == {"refusal": pytest.approx(0.1)}


def test_weighted_by_its_own_probability_a_scorer_counts_every_request_once() -> None:
    draws = [own("refusal", 0.1), own("second_judge", 0.2, nested=True)]
    found = [with_own_draws(*decided(n), draws) for n in range(20_000)]
    for scorer, probability in (("refusal", 0.1), ("second_judge", 0.3 * 0.2)):
        weights = [1 / d.scorer_probability[scorer] for d in found if scorer in d.scorers_drawn]
        error = (20_000 * (1 - probability) / probability) ** 0.5
        assert sum(weights) == pytest.approx(20_000, abs=4 * error)


def test_a_second_judge_judges_only_what_the_first_does() -> None:
    draws = [own("second_judge", 0.5, nested=True)]
    found = [with_own_draws(*decided(n), draws) for n in range(2_000)]
    assert all(d.sampled for d in found if d.scorers_drawn)
    signalled = with_own_draws(raised(decided(1)[0], 1.0), decided(1)[1], draws)
    assert signalled.scorer_probability == {"second_judge": pytest.approx(0.15)}


def test_a_draw_once_made_stays_and_one_that_had_nothing_to_score_comes_later() -> None:
    decision, request = decided(7)
    first = with_own_draws(decision, request, [own("refusal", 1.0)])
    later = with_own_draws(first, request, [own("refusal", 0.01), own("answer_relevance", 1.0)])
    assert later.scorer_probability == {"refusal": 1.0, "answer_relevance": 1.0}
    assert later.scorers_drawn == ["refusal", "answer_relevance"]
    nothing = RagRequest(trace_id=request.trace_id)
    assert with_own_draws(decision, nothing, [own("refusal", 1.0)]) == decision
