"""The gate on planted versions, on floors, and on the same version asked twice."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from collector.config import GateConfig
from collector.errors import UsageError
from collector.evaluation.gate import decide
from tests.fakes.evaluated import Version, run_of

KINDS = ("lookup", "multi_hop", "comparison", "negation")
SEGMENTS = [KINDS[i % 4] for i in range(400)]
CONFIG = GateConfig()
ALL_THREE = ("recall@5", "faithfulness", "correctness")


def test_the_floors_are_those_of_the_requirements_where_none_are_named() -> None:
    assert CONFIG.floors == {"recall": 0.85, "faithfulness": 0.9}
    assert CONFIG.segment_floor == 0.75


def test_a_version_five_points_worse_is_blocked_by_name() -> None:
    version = Version(SEGMENTS, seed=1)
    worse = version.changed(-0.05, *ALL_THREE)
    found = decide(version.run("old", 10), worse.run("new", 11), CONFIG)
    assert not found.passed
    assert any("went from" in reason for reason in found.blocked)


def test_a_version_that_lifts_the_mean_and_sinks_one_segment_is_blocked_for_that_segment() -> None:
    # Lookups from .80 to .95, multi-hop from .84 to .68: ten lost, two gained. The mean rises.
    segments = ["lookup"] * 150 + ["multi_hop"] * 50
    old = [1] * 120 + [0] * 30 + [1] * 42 + [0] * 8
    new = [1] * 142 + [0] * 8 + [1] * 32 + [0] * 10 + [1] * 2 + [0] * 6
    found = decide(
        run_of("old", {"recall@5": old}, segments),
        run_of("new", {"recall@5": new}, segments),
        CONFIG,
    )
    (overall,) = [one for one in found.compared.overall if one.measure == "recall@5"]
    assert overall.verdict == "better"
    assert found.blocked == [
        "recall@5 in multi_hop is 0.680 on 50 questions, below its floor of 0.75, and was 0.840"
    ]


def test_a_segment_that_sank_below_its_floor_by_chance_is_a_warning() -> None:
    # From 16 to 14 of 20, two lost and none gained: p = .25.
    segments = ["lookup"] * 60 + ["multi_hop"] * 20
    old = run_of("old", {"recall@5": [1] * 76 + [0] * 4}, segments)
    new = run_of("new", {"recall@5": [1] * 74 + [0] * 6}, segments)
    found = decide(old, new, CONFIG)
    assert found.passed
    assert any("0.700 on 20 questions, below its floor" in one for one in found.warnings)


def test_a_large_drop_in_a_segment_is_blocked_also_above_its_floor() -> None:
    segments = ["lookup"] * 200 + ["multi_hop"] * 100
    old = run_of("old", {"correctness": [1] * 300}, segments)
    new = run_of("new", {"correctness": [1] * 280 + [0] * 20}, segments)
    found = decide(old, new, CONFIG)
    assert any(
        reason.startswith("correctness in multi_hop went from 1.000 to 0.800")
        for reason in found.blocked
    )


def test_the_same_version_passes_and_says_what_it_could_not_exclude() -> None:
    version = Version(SEGMENTS, seed=1)
    found = decide(version.run("old", 20), version.run("new", 21), CONFIG)
    assert found.passed
    assert any("refusal: not measured" in warning for warning in found.warnings)


def test_the_same_version_asked_twice_is_blocked_at_most_six_times_in_a_hundred() -> None:
    segments = SEGMENTS[:120]
    version = Version(segments, seed=1)
    blocked = sum(
        not decide(version.run("old", 2 * i), version.run("new", 2 * i + 1), CONFIG).passed
        for i in range(500)
    )
    assert blocked / 500 <= 0.06


@pytest.mark.parametrize(
    ("right", "n", "blocked"),
    [
        (14, 20, False),  # P(X <= 14 | 20, .85) = .067: below the floor, but that may be chance
        (40, 60, True),  # P(X <= 40 | 60, .85) = .0003
        (60, 60, False),
    ],
)
def test_a_floor_blocks_what_is_below_it_beyond_chance(right: int, n: int, blocked: bool) -> None:
    scores = {"recall@5": [1.0] * right + [0.0] * (n - right)}
    run = run_of("same", scores, ["lookup"] * n)
    config = GateConfig(floors={"recall": 0.85}, segment_floor=0.0)
    found = decide(run, run, config)
    assert found.passed is not blocked
    assert any("below its floor" in text for text in [*found.blocked, *found.warnings]) is (
        right < n
    )


def test_a_segment_below_its_floor_is_blocked_even_if_it_was_so_before() -> None:
    segments = ["lookup"] * 100 + ["multi_hop"] * 100
    scores = {"faithfulness": [0.95] * 100 + [0.68, 0.60, 0.70, 0.52] * 25}
    run = run_of("same", scores, segments)
    found = decide(run, run, GateConfig(floors={"faithfulness": 0.75}))
    assert found.blocked == [
        "faithfulness in multi_hop is 0.625 on 100 questions, below its floor of 0.75"
    ]


def test_small_segments_are_reported_and_block_nothing() -> None:
    segments = ["lookup"] * 100 + ["multi_hop"] * 10
    run = run_of("same", {"recall@5": [1.0] * 100 + [0.0] * 10}, segments)
    found = decide(run, run, GateConfig(floors={"recall": 0.85}))
    assert found.passed
    assert any("multi_hop is 0.000 on 10 questions" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "config",
    [{"measures": ["latency_ms"]}, {"floors": {"wrong_refusal": 0.1}}, {"floors": {"recal": 0.5}}],
)
def test_what_cannot_be_gated_is_named(config: dict[str, Any]) -> None:
    run = run_of("same", {"mrr": [1.0]}, ["lookup"])
    (key,) = config
    with pytest.raises(UsageError, match=f"evaluation.gate.{key}: ") as caught:
        decide(run, run, GateConfig.model_validate(config))
    assert len(caught.value.problems) == 1


def test_runs_without_a_question_in_common_pass_no_gate() -> None:
    old = run_of("old", {"mrr": [1.0] * 30}, ["lookup"] * 30)
    new = run_of("new", {"mrr": [1.0] * 30}, ["lookup"] * 30)
    new.rows.update({i: structs.replace(row, labels="b") for i, row in new.rows.items()})
    old.rows.update({i: structs.replace(row, labels="a") for i, row in old.rows.items()})
    with pytest.raises(UsageError, match="nothing to compare"):
        decide(old, new, CONFIG)


def test_runs_that_cannot_be_compared_are_refused_with_every_reason() -> None:
    old = run_of("old", {"mrr": [1.0]}, ["lookup"], tier="retrieval", k=10)
    new = run_of("new", {"mrr": [1.0]}, ["lookup"])
    with pytest.raises(UsageError) as caught:
        decide(old, new, GateConfig(measures=["recal"]))
    assert [problem.split(" ")[0] for problem in caught.value.problems] == [
        "the",
        "the",
        "evaluation.gate.measures:",
    ]
