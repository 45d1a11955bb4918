"""Decisions that every replay repeats, independent of upstream samplers."""

from datetime import UTC, datetime

import pytest

from collector.model import Span, Trace
from collector.sampling import decide, head_probability, uniform

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
