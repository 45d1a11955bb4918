"""The week and its conversations as plain data: what changed, what is done, where evidence lies."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from collector.candidates import CandidateAction
from collector.errors import Conflict
from dashboards.candidate_states import CandidateState, check, states_of
from dashboards.review.view import marked
from dashboards.review.week import changes, deployed, forecast, standing
from dashboards.windows import iso_week
from tests.fakes.store import AT


def estimate(mean: float | None, low: float | None = None, high: float | None = None) -> Any:
    return {"estimate": mean, "low": low, "high": high, "requests": 100}


def report(*judges: str, **segments: Any) -> dict[str, Any]:
    return {
        "total": estimate(0.9, 0.85, 0.95),
        "segments": [{"segment": name, **row} for name, row in segments.items()],
        "judge_changes": [
            {"at": "2026-11-04T12:00:00", "fingerprint": new, "previous": old}
            for old, new in pairwise(judges)
        ],
    }


def test_only_what_chance_does_not_explain_is_told_as_a_change() -> None:
    before = report(fell=estimate(0.95, 0.92, 0.97), near=estimate(0.95, 0.9, 0.98))
    now = report(fell=estimate(0.8, 0.75, 0.85), near=estimate(0.88, 0.8, 0.93))
    assert changes(now, before) == ["fell: fell from 0.950 to 0.800"]


def test_segments_judges_and_volume_that_changed_are_named() -> None:
    before = report(gone=estimate(None), small=estimate(None))
    now = report("old/1", "new/2", small=estimate(None), fresh=estimate(0.5, 0.4, 0.6))
    now["total"] = estimate(0.9, 0.85, 0.95) | {"requests": 121}
    assert changes(now, before) == [
        "fresh: new this time",
        "gone: no requests this time",
        "another judge since 2026-11-04 12:00 UTC: new/2",
        "requests: 121 after 100",
    ]
    assert changes(now, now) == ["another judge since 2026-11-04 12:00 UTC: new/2"]


def test_a_judge_that_is_only_asked_otherwise_is_told_as_that() -> None:
    judges = ("openai/m/n/aaa/2", "openai/m/n/bbb/2", "openai/m/o/bbb/2")
    assert [line.partition(" since")[0] for line in changes(report(*judges), report())] == [
        "the judge has other prompts",
        "another judge",
    ]


def test_a_deployment_is_a_version_that_follows_another() -> None:
    def seen(service: str, version: str, day: int) -> dict[str, Any]:
        at = datetime(2026, 11, day, 9, 5, tzinfo=UTC)
        return {"service": service, "version": version, "first_seen": at}

    rows = [seen("a", "1", 2), seen("a", "2", 8), seen("b", "1", 10), seen("a", "3", 15)]
    assert deployed([*rows, seen("a", "4", 16)], iso_week("2026-W46")) == [
        "a: version 3 since 2026-11-15 09:05 UTC"
    ]
    assert deployed(rows[:3], iso_week("2026-W46")) == []


def test_what_a_week_will_have_cost_follows_from_its_pace_once_it_has_one() -> None:
    week = iso_week("2026-W46")
    assert forecast(2.0, week, week.since + timedelta(days=2)) == pytest.approx(7.0)
    assert forecast(2.0, week, week.since + timedelta(hours=3)) is None
    assert forecast(2.0, week, week.until) is None


def happened(*steps: str) -> list[dict[str, Any]]:
    return [
        {
            "candidate_id": "live-1",
            "event": event,
            "actor": f"actor {number}",
            "happened_at": AT + timedelta(minutes=number),
            "trace_id": "t1",
            "payload": json.dumps({"row": {"question": f"question {number}"}}),
        }
        for number, event in enumerate(steps)
    ]


@pytest.mark.parametrize(
    ("steps", "state", "question"),
    [
        (("proposed",), "proposed", "question 0"),
        (("proposed", "edited", "accepted"), "accepted", "question 2"),
        (("proposed", "accepted", "undone"), "proposed", "question 0"),
        (("proposed", "accepted", "undone", "undone"), "unreviewed", None),
        (("rejected", "undone", "accepted", "exported"), "exported", "question 3"),
    ],
)
def test_the_state_is_the_last_step_that_was_not_taken_back(
    steps: tuple[str, ...], state: str, question: str | None
) -> None:
    found = states_of(happened(*steps))["live-1"]
    assert (found.state, found.version) == (state, len(steps))
    assert (found.row or {}).get("question") == question


def test_who_was_faster_is_named() -> None:
    now = states_of(happened("proposed", "accepted"))["live-1"]
    late = CandidateAction(event="rejected", actor="Bo", seen=1)
    with pytest.raises(Conflict, match="actor 1 accepted it at 12:01 UTC; nothing was saved"):
        check(late, now)
    check(CandidateAction(event="rejected", actor="Bo", seen=2), now)


def label(claim: str = "", verdict: str = "", **more: str) -> dict[str, Any]:
    plain = {"trace_id": "t1", "labeller": "Ada", "cause": "", "note": None}
    return plain | {"claim": claim, "verdict": verdict} | more


@pytest.mark.parametrize(
    ("labels", "events", "state"),
    [
        ([], (), "open"),
        ([label("a claim", "SUPPORTED")], (), "open"),
        ([label("", "wrong")], (), "labelled"),
        ([label("", "")], (), "open"),  # taken back
        ([label("", "wrong", trace_id="elsewhere")], (), "open"),
        ([], ("proposed",), "draft"),
        ([label("", "wrong")], ("accepted",), "accepted"),
        ([label("", "wrong")], ("accepted", "undone"), "labelled"),
    ],
)
def test_a_conversation_is_as_far_as_its_labels_and_candidates(
    labels: list[dict[str, Any]], events: tuple[str, ...], state: str
) -> None:
    candidates: list[CandidateState] = list(states_of(happened(*events)).values())
    assert standing({"trace_ids": ["t0", "t1"]}, labels, candidates)["state"] == state


def test_quotes_are_marked_where_they_stand_and_may_overlap() -> None:
    text = "Pro costs\n 10 dollars. SSO is free."
    parts = marked(text, [(1, "pro costs 10 dollars."), (2, "10 dollars. SSO"), (3, "not there")])
    assert [(part["text"], part["claims"]) for part in parts] == [
        ("Pro costs\n ", [1]),
        ("10 dollars.", [1, 2]),
        (" SSO", [2]),
        (" is free.", []),
    ]
    assert "".join(part["text"] for part in parts) == text
    assert marked("plain", []) == [{"text": "plain", "claims": []}]
    odd = marked("İSSO\u2003 ẞ is\n\nFREE\t", [(1, "sso ß is free"), (2, "ẞ IS")])
    assert [(part["text"], part["claims"]) for part in odd] == [
        ("İ", []),
        ("SSO\u2003 ", [1]),
        ("ẞ is", [1, 2]),
        ("\n\nFREE", [1]),
        ("\t", []),
    ]
    assert marked("", [(1, " ")]) == []


def test_no_text_makes_the_search_for_its_quotes_long() -> None:
    text, quote = "a " * 10_000, "a " * 999 + "b"
    began = time.process_time()
    marked(text, [(number, quote) for number in range(100)])
    assert time.process_time() - began < 5.0
