"""What the golden set asks of the store, on the real engine, worked out by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from collector.candidates import CandidateEvent
from collector.model import Document
from collector.model_evaluation import EvalRecord
from dashboards.candidate_states import states_of
from dashboards.reports import Reports
from dashboards.windows import Window
from sinks.clickhouse import ClickHouseStore
from tests.fakes.evaluated import an_eval_row, an_eval_run
from tests.fakes.store import AT, stored

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def store(clickhouse: ClickHouseStore) -> ClickHouseStore:
    return clickhouse


def documents(*pages: str, cited: str | None = None) -> list[Document]:
    return [
        Document(rank=rank, document_id=page, cited=page == cited)
        for rank, page in enumerate(pages, 1)
    ]


async def test_questions_are_counted_by_segment_with_the_pages_they_rest_on(
    store: ClickHouseStore,
) -> None:
    asked: list[dict[str, Any]] = [
        {"question": "Is SSO on Pro?", "segment": "a", "documents": documents("1", "2")},
        {
            "question": " is sso on PRO? ",
            "segment": "a",
            "documents": documents("1", "2", cited="2"),
        },
        {"question": "Is SSO on Pro?", "segment": "b", "documents": []},
        {"question": None, "segment": "a", "documents": documents("9")},
        {"question": "I am bo@example.com, why?", "segment": None, "documents": []},
    ]
    await store.write_requests(
        [stored(f"t{n}", started_at=AT + n * DAY / 100, **one) for n, one in enumerate(asked)]
        + [stored("t0", 2, started_at=AT, **asked[0]), stored("late", started_at=AT + DAY)]
    )
    reports = Reports(store, "judge")
    found = (await reports.live_questions(Window(AT, AT + DAY)))["questions"]
    by_key = {(one["segment"], one["question"]): one for one in found}
    sso = by_key["a", " is sso on PRO? "]  # as it was asked last
    assert (sso["requests"], sso["pages"], sso["segment_requests"]) == (2, ["1", "2"], 3)
    assert by_key["b", "Is SSO on Pro?"]["pages"] == []
    assert by_key["a", None]["pages"] == ["9"]
    assert len(found) == 4
    assert "example.com" not in str(found)
    (most,) = (await reports.live_questions(Window(AT, AT + DAY), limit=1))["questions"]
    assert (most["requests"], most["segment_requests"]) == (2, 3)


async def test_results_are_those_of_finished_runs_oldest_first(store: ClickHouseStore) -> None:
    for number, (name, diagnosis, summary) in enumerate(
        [
            ("new", "working", {"questions": 1}),
            ("old", "retrieval_problem", {}),
            ("open", "x", None),
        ]
    ):
        run = an_eval_run(name, started_at=AT - number * DAY)
        row = an_eval_row(1, diagnosis=diagnosis)
        await store.write_evaluation(EvalRecord(run=run, rows=[row], summary=summary), AT)
    again = EvalRecord(run=an_eval_run("new"), rows=[an_eval_row(1, diagnosis="misread")])
    await store.write_evaluation(again, AT + DAY)
    found = await store.rows("golden_results", {"ids": ["q1"]})
    assert [(row["run_id"], row["diagnosis"]) for row in found] == [
        ("old", "retrieval_problem"),
        ("new", "misread"),
    ]
    assert found[0]["at"] == AT - DAY
    assert await store.rows("golden_results", {"ids": ["q2"]}) == []


async def test_events_of_a_candidate_come_back_in_order_and_once(store: ClickHouseStore) -> None:
    row: dict[str, Any] = {"question": "Why?", "segment": None, "gold_sources": [], "quotes": []}
    events = [
        CandidateEvent(
            candidate_id="live-1",
            happened_at=AT + number * DAY,
            event_id=f"e{number}",
            event=event,  # type: ignore[arg-type]
            actor=actor,
            trace_id="t1",
            payload={"row": {**row, "reference_answer": event}, "provenance": {"judge": "j"}},
        )
        for number, (event, actor) in enumerate(
            [("proposed", "Ana"), ("edited", "Ben"), ("accepted", "Eva"), ("undone", "Eva")]
        )
    ]
    for batch in (events[2:], events[:2], events):
        await store.write_candidate_events(batch)
    for asked in ({"ids": ["live-1"], "trace_ids": []}, {"ids": [], "trace_ids": ["t1"]}):
        (found,) = states_of(await store.rows("candidate_events", asked)).values()
        assert (found.state, found.version, found.actor) == ("edited", 4, "Eva")
        assert (found.row or {})["reference_answer"] == "edited"
        assert [(step.event, step.actor) for step in found.history] == [
            ("proposed", "Ana"),
            ("edited", "Ben"),
            ("accepted", "Eva"),
            ("undone", "Eva"),
        ]
        assert found.provenance == {"judge": "j"}
    later = Window(AT + 90 * DAY, AT + 91 * DAY)
    (waiting,) = await Reports(store, "judge").candidates(later)
    assert (waiting["id"], waiting["state"], waiting["times"]) == ("live-1", "edited", 0)
