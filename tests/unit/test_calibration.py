"""A judge beside people: worked cases of the statistics reference and counts by hand."""

from __future__ import annotations

import pytest

from scorers.calibration import HumanVerdict, calibrate, correct


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


def test_a_good_judge_is_calibrated() -> None:
    found = calibrate(
        labels(
            ("SUPPORTED", "SUPPORTED", 38),
            ("SUPPORTED", "NOT_FOUND", 2),
            ("NOT_FOUND", "NOT_FOUND", 18),
            ("NOT_FOUND", "SUPPORTED", 2),
        )
    )
    assert found.trust == "calibrated"
    assert found.sensitivity is not None
    assert found.specificity is not None
    assert found.sensitivity.value == pytest.approx(0.9)
    assert found.specificity.value == pytest.approx(0.95)
    # Wilson, by statsmodels proportion_confint(18, 20, method="wilson")
    assert found.sensitivity.low == pytest.approx(0.698967, abs=1e-4)


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
