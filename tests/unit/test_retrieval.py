"""Retrieval measures: plain arithmetic on ids."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.model import Document
from scorers import retrieval

GOLD, RETRIEVED = {"C2", "C4"}, ["C1", "C2", "C3"]


def test_recall_and_precision_of_the_worked_example() -> None:
    assert retrieval.recall_at_k(GOLD, RETRIEVED, 3) == 0.5
    assert retrieval.context_recall(GOLD, RETRIEVED) == 0.5
    assert retrieval.precision_at_k(GOLD, RETRIEVED, 3) == pytest.approx(0.33, abs=0.005)


def test_the_sso_question_before_and_after_the_fix() -> None:
    assert retrieval.context_recall(["212", "1140"], ["212", "7", "9"]) == 0.5
    assert retrieval.context_recall(["212", "1140"], ["1140", "212", "9"]) == 1.0


def test_gold_that_is_found_last_has_a_high_recall_and_a_low_reciprocal_rank() -> None:
    found = ["c1", "c2", "c3", "c4", "gold"]
    assert retrieval.recall_at_k(["gold"], found, 5) == 1.0
    assert retrieval.reciprocal_rank(["gold"], found) == 0.2


@pytest.mark.parametrize(
    "measure",
    [
        lambda gold, found: retrieval.recall_at_k(gold, found, 3),
        retrieval.context_recall,
        lambda gold, found: retrieval.precision_at_k(gold, found, 3),
        retrieval.context_precision,
        retrieval.reciprocal_rank,
    ],
)
class TestEveryMeasure:
    def test_is_undefined_without_gold(
        self, measure: Callable[[list[str], list[str]], float | None]
    ) -> None:
        assert measure([], RETRIEVED) is None

    def test_is_zero_when_nothing_came_back(
        self, measure: Callable[[list[str], list[str]], float | None]
    ) -> None:
        assert measure(["C2"], []) == 0.0

    def test_does_not_count_a_page_twice(
        self, measure: Callable[[list[str], list[str]], float | None]
    ) -> None:
        twice = measure(["C2", "C2", "C4"], ["C2", "C2", "C1", "C2", "C3"])
        assert twice == measure(["C2", "C4"], ["C2", "C1", "C3"])


def test_only_the_first_k_count() -> None:
    assert retrieval.recall_at_k(["a", "b"], ["x", "a", "b"], 2) == 0.5
    assert retrieval.reciprocal_rank(["b"], ["x", "a", "b"], 2) == 0.0
    assert retrieval.context_precision(["b"], ["x", "a", "b"], 2) == 0.0


def test_precision_is_over_k_even_when_fewer_came_back() -> None:
    assert retrieval.precision_at_k(["a"], ["a"], 5) == pytest.approx(0.2)


def test_rank_aware_precision_rewards_gold_at_the_top() -> None:
    # Hits at ranks 1 and 3: (1/1 + 2/3) / 2.
    assert retrieval.context_precision(["a", "b"], ["a", "x", "b"]) == pytest.approx(5 / 6)
    assert retrieval.context_precision(["a", "b"], ["a", "b", "x"]) == 1.0
    assert retrieval.context_precision(["a", "b"], ["x", "y", "a"]) == pytest.approx(1 / 3)


def test_missed_gold_lowers_recall_and_not_rank_aware_precision() -> None:
    assert retrieval.context_precision(["a", "b", "c", "d"], ["a", "x"]) == 1.0


def test_the_mean_reciprocal_rank_leaves_out_questions_without_gold() -> None:
    ranks = [
        retrieval.reciprocal_rank(["a"], ["a", "b"]),
        retrieval.reciprocal_rank(["b"], ["a", "b"]),
        retrieval.reciprocal_rank(["c"], ["a", "b"]),
        retrieval.reciprocal_rank([], ["a", "b"]),
    ]
    assert ranks == [1.0, 0.5, 0.0, None]
    assert retrieval.mean_of_defined(ranks) == 0.5
    assert retrieval.mean_of_defined([None]) is None


@pytest.mark.parametrize("k", [0, -1])
def test_k_is_at_least_one(k: int) -> None:
    with pytest.raises(ValueError, match="k is"):
        retrieval.recall_at_k(["a"], ["a"], k)


# --- Ids of documents ---------------------------------------------------------------------------

DOCUMENTS = [
    Document(rank=2, document_id="p2", chunk_id="p2#0"),
    Document(rank=1, document_id="p1", chunk_id="p1#0"),
    Document(rank=3, document_id="p1", chunk_id="p1#1"),
]


def test_page_gold_makes_chunks_of_one_page_one_page() -> None:
    ids = retrieval.retrieved_ids(DOCUMENTS, ["p2"])
    assert ids == ["p1", "p2", "p1"]
    assert retrieval.recall_at_k(["p2"], ids, 2) == 1.0
    assert retrieval.precision_at_k(["p2"], ids, 2) == 0.5


def test_chunk_gold_tells_chunks_of_one_page_apart() -> None:
    ids = retrieval.retrieved_ids(DOCUMENTS, ["p1#1"])
    assert ids == ["p1#0", "p2#0", "p1#1"]
    assert retrieval.reciprocal_rank(["p1#1"], ids) == pytest.approx(1 / 3)


def test_gold_may_name_the_source_or_mix_levels() -> None:
    documents = [
        Document(rank=1, document_id="d9", source="docs/sso.md"),
        Document(rank=2, document_id="p1", chunk_id="p1#1"),
    ]
    gold = ["docs/sso.md", "p1#1"]
    assert retrieval.context_recall(gold, retrieval.retrieved_ids(documents, gold)) == 1.0


def test_documents_without_any_id_keep_their_place() -> None:
    documents = [Document(rank=1), Document(rank=2), Document(rank=3, document_id="a")]
    ids = retrieval.retrieved_ids(documents, ["a"])
    assert retrieval.reciprocal_rank(["a"], ids) == pytest.approx(1 / 3)


# --- Quotes -------------------------------------------------------------------------------------


def test_a_quote_is_found_across_case_space_and_typography() -> None:
    texts = ["Refunds are possible\n  within **30 days** of purchase – “no questions asked”."]
    assert retrieval.quote_reached(["within 30  Days of purchase"], texts) == 1.0
    assert retrieval.quote_reached(['purchase - "No questions asked"'], texts) == 1.0


def test_a_quote_may_be_cut_by_the_border_of_two_chunks() -> None:
    assert retrieval.quote_reached(
        ["single sign-on is included"], ["single sign-on", "is included"]
    )
    assert retrieval.quote_reached(["included in all plans"], ["is incl", "uded in all plans"])


def test_quotes_that_did_not_arrive_lower_the_share() -> None:
    assert retrieval.quote_reached(["30 days", "60 days"], ["within 30 days"]) == 0.5
    assert retrieval.quote_reached(["30 days"], []) == 0.0


def test_a_number_inside_a_longer_number_is_no_hit() -> None:
    assert retrieval.quote_reached(["30 days"], ["within 130 days"]) == 0.0


def test_without_a_quote_nothing_is_measured() -> None:
    assert retrieval.quote_reached([], ["text"]) is None
    assert retrieval.quote_reached([" "], ["text"]) is None


# --- Whatever the lists --------------------------------------------------------------------------

IDS = st.lists(st.sampled_from("abcdefgh"), max_size=12)


@given(IDS, IDS, st.integers(1, 12))
def test_measures_lie_between_0_and_1_and_recall_grows_with_k(
    gold: list[str], found: list[str], k: int
) -> None:
    measures = (
        retrieval.recall_at_k(gold, found, k),
        retrieval.precision_at_k(gold, found, k),
        retrieval.context_precision(gold, found, k),
        retrieval.reciprocal_rank(gold, found, k),
    )
    assert all(value is None or 0.0 <= value <= 1.0 for value in measures)
    assert all((value is None) == (not gold) for value in measures)
    more = retrieval.recall_at_k(gold, found, k + 1)
    assert more is None or measures[0] is None or more >= measures[0]
