"""A late signal raises the probability of its request, and leaves every estimate unbiased."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest

from collector.config import Config
from collector.late_draws import (
    first_task,
    is_in_use,
    is_late_draw,
    late_task,
    raised_row,
    version_with,
)
from collector.model import Decision
from collector.sampling import raised
from tests.fakes.store import decision, stored

GRID = [(i + 0.5) / 1000 for i in range(1000)]
"""A uniform number in [0, 1), enumerated."""


def drawn(u: float, rate: float, upstream: float = 1.0) -> Decision:
    return decision(sampled=u < rate, probability=upstream * rate, uniform=u, upstream=upstream)


# The cases of the statistics reference: probabilities before and after, same hash.
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(0.03, 0.5, 0.5), (0.1, 0.1, 0.1), (1.0, 0.2, 1.0), (0.001, 0.999, 0.999)],
)
def test_the_probability_is_the_higher_of_the_two(
    first: float, second: float, expected: float
) -> None:
    assert raised(drawn(0.7, first), second).probability == expected


def mean_weight(weigh: Callable[[Decision], float]) -> float:
    """Return what one request counts on average over its draw, by a way of weighing it."""
    return sum(weigh(raised(drawn(u, 0.05), 0.4)) for u in GRID) / len(GRID)


def test_every_request_with_the_signal_counts_once_on_average() -> None:
    assert mean_weight(lambda d: d.sampled / d.probability) == pytest.approx(1.0)


def test_weighing_by_the_draw_that_found_it_would_count_it_more_than_once() -> None:
    by_phase = mean_weight(
        lambda d: d.sampled / (d.at_first.probability if d.at_first.sampled else d.probability)
    )
    assert by_phase == pytest.approx(1 + 0.35 / 0.4)


def test_what_upstream_left_out_multiplies_in() -> None:
    after = raised(drawn(0.3, 0.1, upstream=0.25), 0.5)
    assert after.sampled
    assert after.probability == pytest.approx(0.125)
    assert after.at_first.probability == pytest.approx(0.025)


def test_nothing_changes_where_the_rate_is_not_above() -> None:
    before = drawn(0.3, 0.5)
    assert raised(before, 0.5) is before
    assert raised(before, 0.2) is before


def test_what_was_drawn_stays_drawn_and_what_it_was_at_first_is_kept() -> None:
    after = raised(drawn(0.02, 0.05), 0.4)
    assert after.sampled
    assert (after.at_first.sampled, after.at_first.probability) == (True, 0.05)


@pytest.mark.parametrize("u", [0.01, 0.1, 0.3, 0.7])
def test_raising_again_or_in_another_order_ends_the_same(u: float) -> None:
    for rates in itertools.permutations([0.2, 0.5, 0.2]):
        result = drawn(u, 0.05)
        for rate in rates:
            result = raised(result, rate)
        assert result == raised(drawn(u, 0.05), 0.5)


def test_a_raised_row_supersedes_its_telemetry_and_gives_way_to_more() -> None:
    row = stored("t", version=8, decided=drawn(0.3, 0.05))
    after = raised_row(row, 0.5)
    assert row.version < after.version < 10
    assert raised_row(after, 0.5) is after
    assert version_with(10, after.decision) == 11  # late spans keep the raised decision
    assert version_with(10, row.decision) == 10


def test_a_late_draw_is_judged_and_not_counted_by_prometheus() -> None:
    row = raised_row(stored("t", version=8, decided=drawn(0.3, 0.05)), 0.5)
    assert is_late_draw(row)
    task = late_task(row)
    assert (task.counted, task.probability, task.version) == (False, 0.5, 8)


def test_what_was_drawn_at_first_is_not_judged_again() -> None:
    assert not is_late_draw(raised_row(stored("t", decided=drawn(0.01, 0.05)), 0.5))
    assert not is_late_draw(raised_row(stored("t", decided=drawn(0.7, 0.05)), 0.5))


def test_what_has_nothing_to_judge_is_not_judged() -> None:
    row = stored("t", decided=drawn(0.3, 0.05), ineligible="no_claims")
    assert not is_late_draw(raised_row(row, 0.5))


def test_the_first_draw_counts_with_its_own_probability_also_once_raised() -> None:
    row = raised_row(stored("t", version=8, decided=drawn(0.01, 0.05)), 0.5)
    counted = first_task(row.request, row, 8, newly_eligible=True)
    assert counted is not None
    assert (counted.counted, counted.probability) == (True, 0.05)
    late = raised_row(stored("t", version=8, decided=drawn(0.3, 0.05)), 0.5)
    uncounted = first_task(late.request, late, 8, newly_eligible=True)
    assert uncounted is not None
    assert uncounted.counted is False


@pytest.mark.parametrize(
    ("config", "used"),
    [
        ({}, False),
        ({"sampling": {"rate": 0.1}}, True),
        ({"sampling": {"rate": 0.1, "signal_rate": 0}}, False),
        ({"sampling": {"rate": 0.1, "signal_rate": 0.1}}, False),
        ({"sampling": {"budget_per_day": 100}}, True),
        ({"sampling": {"budget_per_day": 100, "signal_rate": 0}}, False),
        ({"sampling": {"rate": 0.1}, "store": {"content": "redacted"}}, True),
        ({"sampling": {"rate": 0.1}, "store": {"content": "none"}}, False),
    ],
)
def test_nothing_is_looked_up_where_nothing_can_be_raised(
    config: dict[str, object], used: bool
) -> None:
    assert is_in_use(Config.model_validate(config)) is used


def test_a_decision_of_before_is_what_it_was_at_first() -> None:
    before = drawn(0.3, 0.05)
    assert before.at_first is before
    after = msgspec.msgpack.decode(msgspec.msgpack.encode(raised(before, 0.5)), type=Decision)
    assert after.at_first == before
