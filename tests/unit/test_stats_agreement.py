"""Judge against people: agreement per label, and rates corrected for the judge's errors."""

from __future__ import annotations

import pytest

from scorers.stats.agreement import (
    Confusion,
    agreement,
    cross_table,
    ppi_human_gold,
    rogan_gladen,
    sensitivity,
    specificity,
)

TABLE = Confusion(both_bad=16, missed=4, false_alarms=4, both_good=76)


def test_a_rate_is_corrected_for_the_errors_of_the_judge() -> None:
    found = rogan_gladen(0.14, 1000, TABLE)
    assert found.estimate == pytest.approx(0.12)
    assert found.standard_error == pytest.approx(0.03516058399)
    assert (found.low, found.high) == pytest.approx((0.03861094737, 0.1916551116))


def test_a_correction_from_few_labels_says_so() -> None:
    assert not rogan_gladen(0.14, 1000, TABLE).enough_labels
    many = Confusion(both_bad=40, missed=10, false_alarms=5, both_good=95)
    assert rogan_gladen(0.14, 1000, many).enough_labels


def test_a_judge_that_guesses_is_refused_rather_than_corrected() -> None:
    guessing = Confusion(both_bad=4, missed=6, false_alarms=36, both_good=54)
    found = rogan_gladen(0.3, 1000, guessing)
    assert (found.estimate, found.low, found.high) == (None, None, None)
    assert found.youden == pytest.approx(0.0)
    assert found.reason == "judge_uninformative"


def test_without_a_bad_answer_among_the_labels_nothing_can_be_corrected() -> None:
    assert rogan_gladen(0.1, 100, Confusion(both_good=50)).reason == "no_labels"
    assert sensitivity(Confusion(both_good=50)) is None
    assert specificity(Confusion(both_bad=5)) is None


def test_a_corrected_rate_below_zero_is_cut_but_not_hidden() -> None:
    found = rogan_gladen(0.0, 1000, TABLE)
    assert found.estimate == 0.0
    assert found.raw_estimate == pytest.approx(-0.05 / 0.75)
    assert found.low == 0.0


def test_people_are_the_truth_and_the_judge_only_helps() -> None:
    found = ppi_human_gold(140, 1000, TABLE)
    assert found is not None
    assert found.estimate == pytest.approx(0.155)
    assert found.lam == pytest.approx(0.75)
    assert found.variance == pytest.approx(0.000797979798)
    assert found.low < 0.1075947506 < 0.2181850472 < found.high


def test_a_judge_unrelated_to_the_truth_gets_no_weight() -> None:
    found = ppi_human_gold(
        500, 1000, Confusion(both_bad=5, missed=5, false_alarms=45, both_good=45)
    )
    assert found is not None
    assert found.lam == 0.0
    assert found.estimate == pytest.approx(0.1)


def test_a_judge_that_never_flags_leaves_the_human_rate() -> None:
    found = ppi_human_gold(0, 1000, Confusion(missed=10, both_good=90))
    assert found is not None
    assert found.estimate == pytest.approx(0.1)


def test_one_label_is_no_rate() -> None:
    assert ppi_human_gold(1, 10, Confusion(both_bad=1)) is None


@pytest.mark.parametrize(("flagged", "judged"), [(-1, 1000), (1001, 1000), (5, 50)])
def test_labels_must_be_part_of_what_was_judged(flagged: int, judged: int) -> None:
    with pytest.raises(ValueError, match="part of the judged"):
        ppi_human_gold(flagged, judged, TABLE)


@pytest.mark.parametrize(("rate", "judged"), [(1.1, 10), (float("nan"), 10), (0.5, 0)])
def test_impossible_rates_are_refused(rate: float, judged: int) -> None:
    with pytest.raises(ValueError, match=r"flag_rate|judged"):
        rogan_gladen(rate, judged, TABLE)


# --- Agreement ----------------------------------------------------------------------------------


def test_kappa_comes_with_its_interval() -> None:
    found = agreement([[16, 4], [4, 76]])
    assert found is not None
    assert found.kappa == pytest.approx(0.75)
    assert (found.kappa_low, found.kappa_high) == pytest.approx((0.5858804435, 0.9141195565))


def test_high_agreement_on_rare_labels_hides_poor_agreement_on_the_rare_one() -> None:
    found = agreement([[2, 3], [3, 92]])
    assert found is not None
    assert found.agreement == pytest.approx(0.94)
    assert found.by_label == pytest.approx([0.40, 0.9684210526])
    assert found.kappa == pytest.approx(0.3684210526)
    assert found.ac1 == pytest.approx(0.9337016575)


def test_a_lazy_judge_agrees_overall_and_never_on_the_bad_label() -> None:
    found = agreement(cross_table(["good"] * 45 + ["bad"] * 5, ["good"] * 50, ["bad", "good"]))
    assert found is not None
    assert found.agreement == pytest.approx(0.9)
    assert found.kappa == pytest.approx(0.0)
    assert found.by_label[0] == 0.0


def test_three_verdicts_are_counted_label_by_label() -> None:
    # Fleiss' textbook form worked by hand: po = .7, pe = .25*.3 + .25*.25 + .5*.45 = .3625.
    found = agreement([[4, 1, 0], [1, 3, 1], [1, 1, 8]])
    assert found is not None
    assert found.agreement == pytest.approx(0.75)
    assert found.kappa == pytest.approx((0.75 - 0.3625) / (1 - 0.3625))
    assert found.by_label == pytest.approx([8 / 11, 6 / 10, 16 / 19])


def test_kappa_is_undefined_where_only_one_label_was_used() -> None:
    found = agreement([[50, 0], [0, 0]])
    assert found is not None
    assert (found.kappa, found.kappa_low, found.by_label) == (None, None, [1.0, None])


def test_no_labels_are_no_agreement() -> None:
    assert agreement([[0, 0], [0, 0]]) is None


@pytest.mark.parametrize("table", [[[1]], [[1, 2], [3]], [[1, -1], [0, 1]]])
def test_a_bad_table_is_refused(table: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="table"):
        agreement(table)


def test_a_label_outside_the_allowed_ones_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match="1 label") as caught:
        cross_table(["good"], ["secret text"], ["bad", "good"])
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="1 labels of one rater, 2 of the other"):
        cross_table(["good"], ["good", "bad"], ["bad", "good"])
