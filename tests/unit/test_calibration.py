"""A judge beside people: worked cases of the statistics reference and counts by hand."""

from __future__ import annotations

import pytest

from scorers.calibration import HumanVerdict, Replies, calibrate, correct


def labels(*groups: tuple[str, str, int], probability: float = 1.0) -> list[HumanVerdict]:
    """Return (people's verdict, judge's verdict, how often) as labels of claims of their own."""
    return [
        HumanVerdict(f"{human}-{machine}-{number}", "a claim", human, machine, probability)
        for human, machine, count in groups
        for number in range(count)
    ]


def test_without_labels_nothing_is_said_of_the_judge() -> None:
    found = calibrate([])
    assert (found.trust, found.labels) == ("uncalibrated", 0)
    assert found.sensitivity is None
    assert found.agreement is None


def test_fewer_than_fifty_labels_are_too_few() -> None:
    found = calibrate(labels(("SUPPORTED", "SUPPORTED", 25), ("NOT_FOUND", "NOT_FOUND", 24)))
    assert found.trust == "uncalibrated"
    assert found.reason == "49 claims labelled, 50 needed"


def test_a_lazy_judge_agrees_well_and_is_not_trusted() -> None:
    found = calibrate(labels(("SUPPORTED", "SUPPORTED", 180), ("NOT_FOUND", "SUPPORTED", 20)))
    assert found.agreement is not None
    assert found.agreement.agreement == pytest.approx(0.9)
    assert found.agreement.by_label[0] == pytest.approx(2 * 180 / (180 + 200))
    assert found.trust == "not trusted"


def test_too_few_labels_of_one_kind_say_which() -> None:
    found = calibrate(labels(("SUPPORTED", "SUPPORTED", 90), ("NOT_FOUND", "NOT_FOUND", 10)))
    assert found.trust == "uncalibrated"
    assert found.reason == "10 labelled claims are not supported, 20 needed"


def test_a_good_judge_is_trusted() -> None:
    found = calibrate(
        labels(
            ("SUPPORTED", "SUPPORTED", 38),
            ("SUPPORTED", "NOT_FOUND", 2),
            ("NOT_FOUND", "NOT_FOUND", 18),
            ("NOT_FOUND", "SUPPORTED", 2),
        )
    )
    assert found.trust == "trusted"
    assert found.sensitivity is not None
    assert found.specificity is not None
    assert found.sensitivity.value == pytest.approx(0.9)
    assert found.specificity.value == pytest.approx(0.95)
    # Wilson, by statsmodels proportion_confint(18, 20, method="wilson")
    assert found.sensitivity.low == pytest.approx(0.698967, abs=1e-4)


@pytest.mark.parametrize(("right", "word"), [(34, "not trusted"), (38, "weak"), (48, "trusted")])
def test_the_word_says_what_the_verdicts_are_worth(right: int, word: str) -> None:
    # Lower bounds by scipy.stats.binomtest(right, 50).proportion_ci(method="wilson"): .5419 (34),
    # .6259 (38), .8654 (48). Two of them less 1 are that of Youden's J: .08, .25 and .73.
    found = calibrate(
        labels(
            *(("SUPPORTED", "SUPPORTED", right), ("SUPPORTED", "NOT_FOUND", 50 - right)),
            *(("NOT_FOUND", "NOT_FOUND", right), ("NOT_FOUND", "SUPPORTED", 50 - right)),
        )
    )
    assert found.trust == word


GOOD = labels(("SUPPORTED", "SUPPORTED", 50), ("NOT_FOUND", "NOT_FOUND", 50))


@pytest.mark.parametrize(
    ("replies", "word"),
    [
        (Replies(19, 19), "trusted"),  # too few to say
        (Replies(20, 14), "trusted"),  # at least .4810 of its replies fail, by Wilson
        (Replies(20, 15), "not trusted"),  # at least .5313
    ],
)
def test_a_judge_that_mostly_fails_is_not_trusted_with_the_rest(
    replies: Replies, word: str
) -> None:
    assert calibrate(GOOD, replies).trust == word


def test_a_judge_that_never_says_anything_needs_no_labels_to_lose_trust() -> None:
    found = calibrate([], Replies(answers=20, unusable=20))
    assert found.trust == "not trusted"
    assert found.reason == "of its replies on 20 answers, 20 cannot be used"
    assert correct(0.9, 0.001, 20.0, found).reason == found.reason


def test_any_verdict_but_supported_is_bad() -> None:
    found = calibrate(labels(("CONTRADICTED", "NOT_FOUND", 30), ("SUPPORTED", "SUPPORTED", 30)))
    assert found.sensitivity is not None
    assert found.sensitivity.value == 1.0
    assert found.bad == 30


def test_claims_chosen_by_their_verdict_are_weighed_back() -> None:
    # 100 flagged claims all labelled, of 900 others every tenth: 80 + 5*10 bad ones, 80 flagged.
    flagged = labels(("NOT_FOUND", "NOT_FOUND", 80), ("SUPPORTED", "NOT_FOUND", 20))
    passed = labels(("NOT_FOUND", "SUPPORTED", 5), ("SUPPORTED", "SUPPORTED", 85), probability=0.1)
    found = calibrate(flagged + passed)
    assert found.sensitivity is not None
    assert found.specificity is not None
    assert found.sensitivity.value == pytest.approx(80 / 130)
    assert found.specificity.value == pytest.approx(850 / 870)


def test_several_people_on_a_claim_count_once_by_what_most_say() -> None:
    said = ["SUPPORTED", "NOT_FOUND", "NOT_FOUND"]
    found = calibrate([HumanVerdict("t", "c", verdict, "NOT_FOUND", 1.0) for verdict in said])
    assert (found.labels, found.bad) == (1, 1)
    assert found.people is not None
    assert found.people.n == 1
    assert found.people.agreement == 0.0


def test_where_people_are_divided_the_latest_counts() -> None:
    both = [
        HumanVerdict("t", "c", "SUPPORTED", "SUPPORTED", 1.0),
        HumanVerdict("t", "c", "NOT_FOUND", "SUPPORTED", 1.0),
    ]
    assert calibrate(both).good == 1


def test_the_published_table_shows_what_the_overall_share_hides() -> None:
    # Reference table [[2, 3], [3, 92]]: agreement .94, but .40 on the rare label.
    found = calibrate(
        labels(
            ("NOT_FOUND", "NOT_FOUND", 2),
            ("NOT_FOUND", "SUPPORTED", 3),
            ("SUPPORTED", "NOT_FOUND", 3),
            ("SUPPORTED", "SUPPORTED", 92),
        )
    )
    assert found.agreement is not None
    assert found.agreement.agreement == pytest.approx(0.94)
    assert found.agreement.kappa == pytest.approx(0.368, abs=5e-4)
    assert found.agreement.by_label[2] == pytest.approx(0.40)


ENOUGH = labels(
    *(("NOT_FOUND", "NOT_FOUND", 80), ("NOT_FOUND", "SUPPORTED", 20)),
    *(("SUPPORTED", "SUPPORTED", 95), ("SUPPORTED", "NOT_FOUND", 5)),
)


def test_known_errors_are_taken_out_of_the_mean() -> None:
    # Reference case j1: 14 % flagged at a sensitivity of .8 and a specificity of .95 are 12 % bad.
    found = correct(0.86, 0.14 * 0.86 / 1000, 900.0, calibrate(ENOUGH))
    assert found.state == "corrected"
    assert found.estimate == pytest.approx(0.88)
    assert found.low is not None
    assert found.high is not None
    # With more labels than in j1, a narrower interval than its .038611 to .191655.
    assert 1 - 0.191655 < found.low < 0.88 < found.high < 1 - 0.038611


def test_labels_that_weigh_little_refuse_the_correction() -> None:
    heavy = labels(("NOT_FOUND", "NOT_FOUND", 4), probability=0.01)
    few = labels(("NOT_FOUND", "NOT_FOUND", 60), ("SUPPORTED", "SUPPORTED", 60))
    found = correct(0.9, 0.001, 100.0, calibrate([*heavy[:2], *few]))
    assert (found.state, found.estimate) == ("refused", None)
    assert found.reason.endswith("it takes 50 of each")


def test_a_judge_that_says_nothing_is_not_corrected_by() -> None:
    lazy = labels(("SUPPORTED", "SUPPORTED", 80), ("NOT_FOUND", "SUPPORTED", 60))
    found = correct(0.9, 0.001, 100.0, calibrate(lazy))
    assert (found.state, found.reason) == ("refused", calibrate(lazy).reason)
