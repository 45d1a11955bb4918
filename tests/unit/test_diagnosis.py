"""What went wrong with an answer, offline with gold and live without."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest

from collector.labels import Cause
from collector.model import Claim, Document, RagRequest, Stage
from scorers.diagnosis import Evidence, Thresholds, diagnose, diagnose_online

# --- With gold -----------------------------------------------------------------------------------


@pytest.mark.parametrize("faithfulness", [0.0, 1.0, None])
def test_low_recall_and_a_wrong_answer_are_a_retrieval_problem(faithfulness: float | None) -> None:
    assert diagnose(0.5, faithfulness, 0.0).name == "retrieval_problem"


@pytest.mark.parametrize(
    ("recall", "faithfulness", "correctness", "name", "cause"),
    [
        (1.0, 0.5, 0.0, "context_ignored", "ignored"),
        (1.0, 1.0, 0.0, "context_insufficient_or_misread", None),
        (0.5, 0.5, 1.0, "lucky_pretraining", "pretraining"),
        (1.0, 1.0, 1.0, "working", None),
    ],
)
def test_the_rows_of_the_table(
    recall: float, faithfulness: float, correctness: float, name: str, cause: str | None
) -> None:
    found = diagnose(recall, faithfulness, correctness)
    assert (found.name, found.cause) == (name, cause)


def test_the_sso_question_before_and_after_the_fix() -> None:
    # Pages 212 and 1140 are needed; only 212 was in the context and the one claim is backed by it.
    before = diagnose(0.5, 1.0, 0.0, Evidence(gold_in_corpus=True, candidate_recall=0.5))
    assert (before.name, before.cause) == ("retrieval_problem", "not_retrieved")
    assert diagnose(1.0, 1.0, 1.0).name == "working"


def test_every_combination_has_a_name_of_its_own_and_advice() -> None:
    levels = (0.0, 1.0, None)
    found = {key: diagnose(*key) for key in itertools.product(levels, levels, levels)}
    retrieval = {key for key, one in found.items() if one.name == "retrieval_problem"}
    assert retrieval == {(0.0, faithfulness, 0.0) for faithfulness in levels}
    others = [one.name for key, one in found.items() if key not in retrieval]
    assert len(others) == len(set(others)) == 24
    assert all(one.what_to_do.endswith(".") for one in found.values())


@pytest.mark.parametrize(
    ("scores", "evidence", "cause"),
    [
        ((0.0, 0.5, 0.0), Evidence(gold_in_corpus=False), "page_missing"),
        ((0.0, 0.5, 0.0), Evidence(gold_in_corpus=True, candidate_recall=0.0), "not_retrieved"),
        ((0.0, 0.5, 0.0), Evidence(candidate_recall=1.0), "ranked_out"),
        ((1.0, 0.5, 0.0), Evidence(contradicted_claims=0), "ignored"),
        ((1.0, 0.5, 0.0), Evidence(contradicted_claims=1), "misread"),
        ((1.0, 1.0, 0.0), Evidence(quote_reached=1.0), "misread"),
        ((0.0, 0.5, 1.0), Evidence(), "pretraining"),
        ((1.0, 1.0, 1.0), Evidence(reported=True), "answer_was_right"),
    ],
)
def test_the_seven_causes_are_told_apart(
    scores: tuple[float, float, float], evidence: Evidence, cause: str
) -> None:
    assert diagnose(*scores, evidence).cause == cause


def test_what_the_data_cannot_tell_apart_is_left_open() -> None:
    found = diagnose(0.5, 1.0, 0.0)
    assert found.cause is None
    assert set(found.possible) == {"page_missing", "not_retrieved", "ranked_out"}
    # Candidates were no better than the context: nothing was lost in ranking.
    narrowed = diagnose(0.5, 1.0, 0.0, Evidence(candidate_recall=0.5))
    assert set(narrowed.possible) == {"page_missing", "not_retrieved"}
    # The page was there but not the passage: chunking or ranking, not reading.
    passage = diagnose(1.0, 1.0, 0.0, Evidence(quote_reached=0.0))
    assert set(passage.possible) == {"not_retrieved", "ranked_out"}


def test_thresholds_decide_what_is_high() -> None:
    assert diagnose(0.8, 1.0, 1.0).name == "right_from_other_pages"
    assert diagnose(0.8, 1.0, 1.0, thresholds=Thresholds(recall=0.8)).name == "working"


def test_half_an_answer_is_not_correct() -> None:
    assert diagnose(1.0, 1.0, 0.5).name == "context_insufficient_or_misread"


@pytest.mark.parametrize(
    ("recall", "evidence", "name"),
    [
        (None, Evidence(answerable=False, refused=True), "refused_rightly"),
        (None, Evidence(answerable=False, refused=False), "answered_the_unanswerable"),
        (None, Evidence(answerable=False), "unanswerable_refusal_unknown"),
        (1.0, Evidence(refused=True), "refused_wrongly"),
        (0.0, Evidence(refused=True), "refused_for_lack_of_context"),
        (None, Evidence(refused=True), "refused_retrieval_unknown"),
    ],
)
def test_refusals_are_judged_by_whether_there_was_an_answer(
    recall: float | None, evidence: Evidence, name: str
) -> None:
    assert diagnose(recall, None, None, evidence).name == name


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_an_impossible_score_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="a score is"):
        diagnose(score, 1.0, 1.0)


# --- Live ----------------------------------------------------------------------------------------

PASSAGE = "Refunds for annual plans are possible within 30 days of purchase."


def request(**changes: Any) -> RagRequest:
    fields: dict[str, Any] = {
        "trace_id": "0" * 32,
        "question": "Are refunds possible for annual plans?",
        "answer": "Yes, annual plans can be refunded within 30 days [1].",
        "documents": [Document(rank=1, document_id="p1", text=PASSAGE)],
        "stages": [Stage(kind="retriever", documents=1)],
        "retriever_stages": 1,
        "citations": [1],
    }
    return RagRequest(**{**fields, **changes})


SUPPORTED = Claim(text="c", verdict="SUPPORTED", quote=PASSAGE, document_rank=1)
CONTRADICTED = Claim(text="c", verdict="CONTRADICTED", quote=PASSAGE, document_rank=1)
NOT_FOUND = Claim(text="c", verdict="NOT_FOUND")
REFUSAL = "I don't know."
EMPTY = [Stage(kind="retriever", documents=0)]
DROPPED = [Stage(kind="retriever", documents=20), Stage(kind="reranker", documents=1)]


@pytest.mark.parametrize(
    ("changes", "claims", "name", "cause"),
    [
        ({}, [SUPPORTED], "grounded", None),
        ({}, [SUPPORTED, CONTRADICTED, NOT_FOUND], "context_misread", "misread"),
        ({}, [SUPPORTED, NOT_FOUND], "unsupported_claims", None),
        ({"stages": DROPPED}, [NOT_FOUND], "unsupported_after_dropped_candidates", None),
        ({"citations": [1, 7]}, [SUPPORTED], "wrong_citation", None),
        ({"citations": [1, 7]}, [], "wrong_citation", None),
        ({}, [], "cannot_tell_not_judged", None),
        ({"documents": [], "stages": EMPTY}, [NOT_FOUND], "empty_retrieval", None),
        ({"documents": [], "stages": DROPPED}, [], "all_candidates_dropped", None),
        (
            {"documents": [], "stages": [], "retriever_stages": 0, "flags": ["no_retrieval"]},
            [],
            "no_retrieval",
            "pretraining",
        ),
        ({"status": "error"}, [], "request_failed", None),
        ({"answer": None, "flags": ["content_missing"]}, [], "cannot_tell_content_missing", None),
        ({"flags": ["tool_call_answer"]}, [], "cannot_tell_tool_call", None),
        ({"flags": ["truncated"]}, [NOT_FOUND], "cannot_tell_context_incomplete", None),
        (
            {"documents": [Document(rank=1, document_id="p1")]},
            [NOT_FOUND],
            "cannot_tell_context_incomplete",
            None,
        ),
    ],
)
def test_a_live_request_is_diagnosed_as_far_as_it_can_be(
    changes: dict[str, Any], claims: list[Claim], name: str, cause: str | None
) -> None:
    found = diagnose_online(request(**changes), claims)
    assert (found.name, found.cause) == (name, cause)
    assert found.what_to_do.endswith(".")


def test_dropped_candidates_come_first_among_what_may_be_the_cause() -> None:
    found = diagnose_online(request(stages=DROPPED), [NOT_FOUND])
    assert found.possible[0] == "ranked_out"


@pytest.mark.parametrize(
    ("sufficient", "name", "cause"),
    [
        (True, "context_ignored", "ignored"),
        (False, "unsupported_on_insufficient_context", None),
        (None, "unsupported_claims", None),
    ],
)
def test_a_sufficiency_score_tells_ignored_from_invented(
    sufficient: bool | None, name: str, cause: str | None
) -> None:
    found = diagnose_online(request(), [NOT_FOUND], context_sufficient=sufficient)
    assert (found.name, found.cause) == (name, cause)


@pytest.mark.parametrize(
    ("changes", "sufficient", "name"),
    [
        ({}, None, "refused_wrongly"),
        ({}, True, "refused_wrongly"),
        ({}, False, "refused_on_insufficient_context"),
        ({"stages": DROPPED}, False, "refused_after_dropped_candidates"),
        ({"question": "Does Acme offer pet insurance for cats?"}, None, "refused_cannot_tell"),
        ({"question": "SSO?"}, None, "refused_cannot_tell"),
        ({"documents": [], "stages": EMPTY}, None, "refused_on_empty_retrieval"),
        ({"documents": [], "retriever_stages": 0}, None, "refused_without_retrieval"),
    ],
)
def test_a_refusal_is_wrong_only_where_the_context_seems_to_answer(
    changes: dict[str, Any], sufficient: bool | None, name: str
) -> None:
    refused = request(**{"answer": REFUSAL, "citations": [], **changes})
    assert diagnose_online(refused, [], context_sufficient=sufficient).name == name


def test_who_knows_better_may_say_what_is_a_refusal() -> None:
    assert diagnose_online(request(), [], refused=True).name == "refused_wrongly"
    assert diagnose_online(request(answer=REFUSAL), [], refused=False).name != "refused_wrongly"


def test_a_complaint_about_a_grounded_answer_leaves_open_that_the_user_is_wrong() -> None:
    found = diagnose_online(request(), [SUPPORTED], reported=True)
    assert found.name == "grounded_but_reported"
    assert "answer_was_right" in found.possible
    assert found.cause is None


def test_only_the_seven_causes_are_ever_named() -> None:
    assert len(get_args(Cause)) == 7
