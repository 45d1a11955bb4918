"""The demo's scenario: the same seed tells the same story, and every failure can be found."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from collector.demo.scenario import NEGATIVE, Scenario, found_by, scenario
from collector.demo.script import KINDS, PlantedAnswer
from collector.demo.summary import planted_in_review


@pytest.fixture(scope="module")
def story() -> Scenario:
    return scenario(7)


def test_the_same_seed_gives_the_same_scenario(story: Scenario) -> None:
    assert scenario(7) == story


def test_another_seed_gives_another_order_of_the_same_failures(story: Scenario) -> None:
    other = scenario(8)
    assert other.conversations != story.conversations
    assert sorted(p.question for p in other.planted) == sorted(p.question for p in story.planted)


def test_a_run_id_makes_the_conversations_new_and_nothing_else(story: Scenario) -> None:
    again = scenario(7, run_id="second")
    first = [c.conversation_id for c in story.conversations]
    second = [c.conversation_id for c in again.conversations]
    assert len(set(first + second)) == len(first) + len(second)
    assert all(conversation_id.startswith("second-") for conversation_id in second)
    assert [c.turns for c in again.conversations] == [c.turns for c in story.conversations]


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_there_are_about_160_requests_in_conversations_of_one_to_four_turns(seed: int) -> None:
    drawn = scenario(seed)
    assert 150 <= drawn.requests <= 250
    assert {len(c.turns) for c in drawn.conversations} == {1, 2, 3, 4}


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_three_quarters_or_more_of_the_traffic_is_good(seed: int) -> None:
    kinds = Counter(turn.kind for c in scenario(seed).conversations for turn in c.turns)
    assert 0.75 <= kinds["good"] / kinds.total() <= 0.85
    assert kinds["right_refusal"] >= 2
    assert all(kinds[kind] >= 2 for kind in KINDS)


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_both_channels_carry_about_half_of_the_requests(seed: int) -> None:
    channels = Counter(c.channel for c in scenario(seed).conversations for _ in c.turns)
    assert 0.4 <= channels["web"] / channels.total() <= 0.6


def test_planted_items_name_the_turn_that_fails(story: Scenario) -> None:
    by_id = {c.conversation_id: c for c in story.conversations}
    for planted in story.planted:
        turn = by_id[planted.conversation_id].turns[planted.turn - 1]
        assert (turn.question, turn.kind) == (planted.question, planted.kind)
    failing = sum(t.kind in KINDS for c in story.conversations for t in c.turns)
    assert failing == len(story.planted)


def test_failures_are_spread_one_to_a_conversation(story: Scenario) -> None:
    conversations = Counter(planted.conversation_id for planted in story.planted)
    assert set(conversations.values()) == {1}
    assert len(conversations) < len(story.conversations) / 2


def test_found_by_is_true_to_the_signals_of_the_turn(story: Scenario) -> None:
    by_id = {c.conversation_id: c for c in story.conversations}
    for planted in story.planted:
        turn = by_id[planted.conversation_id].turns[planted.turn - 1]
        signalled = any(signal.kind in NEGATIVE for signal in turn.signals)
        assert signalled == (planted.found_by in {"signal", "both"})
    assert {planted.found_by for planted in story.planted} == {"signal", "claims", "both"}


def test_a_failure_that_nothing_gives_away_is_a_mistake_of_the_script() -> None:
    item = PlantedAnswer(
        id="silent",
        kind="misread",
        channel="web",
        segment="lookup",
        sources=["1"],
        question="?",
        answer="a",
        reference="b",
        claims_found=False,
        signals=[],
    )
    with pytest.raises(ValueError, match=r"planted\.silent"):
        found_by(item)


def test_signals_are_noisy_both_ways_and_some_come_early(story: Scenario) -> None:
    signals = [(t.kind, s) for c in story.conversations for t in c.turns for s in t.signals]
    assert any(kind == "good" and s.kind == "thumbs_down" for kind, s in signals)
    assert any(kind in KINDS and s.kind == "thumbs_up" for kind, s in signals)
    assert {s.early for _, s in signals} == {True, False}
    assert {s.target for _, s in signals} == {"trace", "response", "conversation"}
    assert {s.kind for _, s in signals} >= {
        "thumbs_up",
        "thumbs_down",
        "rephrase",
        "copy",
        "citation_click",
    }


def test_turns_of_a_conversation_do_not_overlap_even_when_slow(story: Scenario) -> None:
    longest_seconds = 4.0
    for conversation in story.conversations:
        offsets = [turn.offset_seconds for turn in conversation.turns]
        gaps = [later - earlier for earlier, later in pairwise(offsets)]
        assert all(gap > longest_seconds for gap in gaps)


def test_the_summary_counts_planted_failures_among_the_rows_of_the_review(
    story: Scenario,
) -> None:
    misread = [planted for planted in story.planted if planted.kind == "misread"]
    lucky = next(planted for planted in story.planted if planted.kind == "lucky")
    rows: list[dict[str, Any]] = [
        {"conversation_id": misread[0].conversation_id},
        {"conversation_id": lucky.conversation_id},
        {"conversation_id": "somebody-else"},
        {"conversation_id": None},
    ]
    counts = planted_in_review(story.planted, rows)
    assert counts["misread"] == {"planted": 4, "in_top": 1}
    assert counts["lucky"] == {"planted": 3, "in_top": 1}
    assert counts["ignored"] == {"planted": 3, "in_top": 0}
    assert sum(count["planted"] for count in counts.values()) == len(story.planted)
