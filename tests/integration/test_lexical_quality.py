"""The local judge agrees with people on public data at least as well as its documentation says.

The bounds lie a little below what `python -m tests.judge_report` shows.
"""

import pytest

from tests.judge_report import DATA_SETS, claims_per_second, measure, typical_requests

pytestmark = pytest.mark.shared


@pytest.mark.parametrize(
    ("data_set", "auroc", "balanced_accuracy", "fixed_accuracy"),
    [
        ("WiCE dev", 0.83, 0.73, 0.68),
        ("BEGIN-wow dev", 0.93, 0.83, 0.82),
        ("MTRAG answers", 0.84, 0.76, 0.73),
    ],
)
def test_agreement_with_people_is_what_the_documentation_says(
    data_set: str, auroc: float, balanced_accuracy: float, fixed_accuracy: float
) -> None:
    result = measure(DATA_SETS[data_set]())
    assert result.auroc >= auroc
    assert result.balanced_accuracy >= balanced_accuracy
    assert result.fixed_accuracy >= fixed_accuracy


def test_claims_left_out_as_no_claims_were_hardly_ever_found_supported() -> None:
    examples = DATA_SETS["BEGIN-wow dev"]()
    assert measure(examples).unscored <= 0.05 * len(examples)


def test_it_is_fast_enough_for_all_traffic() -> None:
    requests = typical_requests()[:100]
    claims_per_second(requests[:20])
    assert claims_per_second(requests) >= 500
