"""How exported golden rows fare, and candidates beside what people did to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboards.candidate_states import CandidateState
from dashboards.candidates import candidate_of, distinct, known_as, with_state
from dashboards.golden_history import GoldenHistory, Outcome, standing_of
from scorers.diagnosis_rows import TABLE, passed
from tests.unit.test_candidates import claim, conversation

MONDAY = datetime(2026, 11, 23, 9, tzinfo=UTC)


def outcomes(spelled: str) -> list[Outcome]:
    """Return one answer a day: `r` right, `w` wrong."""
    return [
        Outcome(MONDAY + timedelta(days=day), mark == "r", f"run {day}")
        for day, mark in enumerate(spelled)
    ]


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("", "untried"),
        ("w", "failing"),
        ("ww", "failing"),
        ("r", "fixed"),
        ("wr", "fixed"),
        ("wrr", "fixed"),
        ("wrw", "regression"),
        ("wrww", "regression"),
        ("wrwr", "fixed"),
    ],
)
def test_a_failure_is_open_fixed_or_back(spelled: str, name: str) -> None:
    assert standing_of(reversed(outcomes(spelled))).name == name


def test_a_regression_names_when_it_was_right_last_and_when_it_is_wrong() -> None:
    said = standing_of(outcomes("rrwrw")).said
    assert said == (
        "came back: right in run 3 on 2026-11-26 09:00, wrong in run 4 on 2026-11-27 09:00"
    )


@pytest.mark.parametrize(
    ("finding", "good"),
    [
        ("working", True),
        ("refused_rightly", True),
        ("lucky_pretraining", False),  # section 4: dangerous, fails on private data
        ("retrieval_problem", False),
        ("context_ignored", False),
        ("answered_the_unanswerable", False),
        ("refused_wrongly", False),
        ("retrieved_rest_unknown", None),
        (None, None),
    ],
)
def test_findings_are_right_wrong_or_neither(finding: str | None, *, good: bool | None) -> None:
    assert passed(finding) is good


def test_no_finding_of_unknown_correctness_counts() -> None:
    unknown = [row.name for (_, _, correct), row in TABLE.items() if correct is None]
    assert {passed(name) for name in unknown} == {None}


def state(question: str = "Is SSO on Pro free?", name: str = "exported") -> CandidateState:
    row = {
        "question": question,
        "reference_answer": "No.",
        "gold_sources": ["page-1140"],
        "quotes": [],
        "segment": "pricing",
        "answerable": True,
    }
    return CandidateState(candidate_id="live-1", state=name, version=2, actor="Ana", row=row)


def listed(history: GoldenHistory, *made: dict[str, Any] | None) -> list[dict[str, Any]]:
    found = distinct(known_as(one, history) for one in made if one is not None)
    return [with_state(one, history) for one in found]


def test_a_live_failure_that_asks_what_an_exported_row_asks_is_that_row() -> None:
    results = [{"question_id": "live-1", "run_id": "a", "at": MONDAY, "diagnosis": "working"}]
    history = GoldenHistory([state()], results)
    earlier, later, other = (
        candidate_of(conversation(question=question), "judge")
        for question in ("is sso on Pro free", "Is SSO on Pro  free?", "Who?")
    )
    assert earlier is not None
    earlier["provenance"]["asked_at"] = (MONDAY - timedelta(days=1)).isoformat()
    again, new = listed(history, earlier, later, other)  # the worst one first, not the latest
    assert (again["id"], again["state"], again["by"]) == ("live-1", "exported", "Ana")
    assert (again["times"], again["standing"]["name"]) == (2, "regression")
    assert again["gold_sources"] == ["page-1140"]
    assert (new["state"], new["standing"], new["times"]) == ("unreviewed", None, 1)
    (fixed,) = listed(history, earlier)
    assert fixed["standing"]["name"] == "fixed"  # it failed before the run that was right


def test_only_what_is_in_the_set_can_come_back() -> None:
    history = GoldenHistory([state(name="rejected")], [])
    (found,) = listed(history, candidate_of(conversation(), "judge"))
    assert (found["state"], found["standing"]) == ("rejected", None)


def test_the_draft_of_a_reference_is_what_the_pages_say_with_personal_data_masked() -> None:
    turns: list[dict[str, Any]] = [
        claim("SUPPORTED", 1, "SSO is on Pro."),
        claim("CONTRADICTED", 2, "It costs 2 dollars; ask ana@example.com."),
        claim("SUPPORTED", 1, "SSO is on Pro."),
        claim("NOT_FOUND", None, None),
    ]
    made = candidate_of(conversation(*turns, question="I am bo@example.com. Is SSO free?"), "judge")
    assert made is not None
    assert made["reference_answer"] is None
    assert made["draft_reference"].startswith("SSO is on Pro. It costs 2 dollars; ask ")
    assert "example.com" not in str(made)
