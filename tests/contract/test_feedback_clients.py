"""Clients of other products keep working when they are pointed at us.

The calls were recorded from the real clients; `make test-feedback-clients` runs the clients
themselves.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from collector.model import Signal
from collector.ports import SIGNALS
from collector.telemetry import Metrics
from tests.fakes.clocks import StoppedClock
from tests.fakes.journal import MemoryJournal
from tests.fakes.receiving import JSON, HttpReceivers, counted, journalled

RECORDED = Path(__file__).parents[1] / "data" / "feedback"
CALLS: list[dict[str, Any]] = json.loads((RECORDED / "client-calls.json").read_text())["calls"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FEEDBACK_ID = "01a229e2-4414-73b3-a726-36cc8bd42c85"


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


@pytest.fixture
async def serve(metrics: Metrics) -> AsyncIterator[HttpReceivers]:
    receivers = HttpReceivers(metrics, StoppedClock(NOW))
    async with receivers.stack:
        yield receivers


async def told(journal: MemoryJournal) -> list[Signal]:
    records = await journalled(journal, SIGNALS)
    return [s for r in records for s in msgspec.json.decode(r.body, type=list[Signal])]


async def replay(client: httpx.AsyncClient, call: dict[str, Any]) -> httpx.Response:
    body = b"" if call["body"] is None else json.dumps(call["body"]).encode()
    return await client.request(call["method"], call["path"], content=body, headers=call["headers"])


def calls(prefix: str, method: str) -> list[dict[str, Any]]:
    return [call for call in CALLS if call["path"].startswith(prefix) and call["method"] == method]


async def test_every_recorded_call_is_answered_as_its_client_expects(serve: HttpReceivers) -> None:
    journal = MemoryJournal()
    client = await serve(journal)
    for call in CALLS:
        response = await replay(client, call)
        assert response.is_success, (call["path"], response.text)


async def test_scores_of_the_langfuse_client_reach_trace_span_and_session(
    serve: HttpReceivers,
) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    batch, single = calls("/api/public/scores", "POST")

    response = await replay(client, batch)

    assert response.json() == {"message": "Accepted"}
    on_span, on_session = await told(journal)  # the third is named "mood", which nobody knows
    assert (on_span.kind, on_span.trace_id, on_span.span_id) == ("thumbs_up", TRACE, SPAN)
    assert on_span.comment == "helpful"
    assert (on_session.kind, on_session.value, on_session.conversation_id) == (
        "rating",
        4.0,
        "chat-1",
    )
    response = await replay(client, single)
    assert response.json()["id"] == "abc"
    assert (await told(journal))[-1].kind == "thumbs_down"


async def test_a_deletion_of_the_langfuse_client_takes_the_score_back(
    serve: HttpReceivers,
) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    (delete,) = calls("/api/public/scores", "DELETE")

    await replay(client, delete)

    (signal,) = await told(journal)
    assert (signal.signal_id, signal.revoked) == ("abc", True)


async def test_partly_readable_langfuse_scores_are_answered_207_with_counts(
    serve: HttpReceivers,
) -> None:
    client = await serve.in_process(MemoryJournal())
    good = {"traceId": TRACE, "name": "thumbs", "value": 1}
    response = await client.post("/api/public/scores", json=[good, {"name": "thumbs"}])
    assert response.status_code == 207
    body = response.json()
    assert (body["accepted"], body["rejected"]) == (1, 1)
    assert "value: missing" in body["errors"][0]["message"]


async def test_the_older_langfuse_batch_is_answered_event_by_event(serve: HttpReceivers) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    batch = [
        {
            "id": "e1",
            "type": "score-create",
            "timestamp": "2026-11-30T10:00:00Z",
            "body": {"id": "s1", "traceId": TRACE, "name": "thumbs", "value": 0},
        },
        {"id": "e2", "type": "trace-create", "body": {"id": TRACE}},
    ]

    response = await client.post("/api/public/ingestion", json={"batch": batch})

    assert response.status_code == 207
    assert response.json()["successes"] == [{"id": "e1", "status": 201}]
    (error,) = response.json()["errors"]
    assert (error["id"], error["status"]) == ("e2", 400)
    (signal,) = await told(journal)
    assert (signal.signal_id, signal.kind) == ("s1", "thumbs_down")


async def test_the_langsmith_client_is_told_to_send_feedback_one_by_one(
    serve: HttpReceivers,
) -> None:
    client = await serve.in_process(MemoryJournal())
    response = await client.get("/info")
    told = response.json()["batch_ingest_config"]
    assert told["use_multipart_endpoint"] is False
    # Fields that its background thread reads without asking whether they are there.
    assert {"size_limit", "scale_up_nthreads_limit", "scale_up_qsize_trigger"} <= told.keys()


async def test_feedback_of_the_langsmith_client_is_given_changed_and_deleted(
    serve: HttpReceivers,
) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    for call in calls("/feedback", "POST"):
        await replay(client, call)
    down, child, up = await told(journal)
    assert (down.signal_id, down.kind) == (FEEDBACK_ID, "thumbs_down")
    assert child.kind == up.kind == "thumbs_up"
    # A child run's feedback names the trace of its root, whose feedback has the same trace.
    assert down.trace_id == child.trace_id == up.trace_id
    assert down.span_id != child.span_id

    for method in ("PATCH", "DELETE"):
        (call,) = calls("/feedback", method)
        await replay(client, call)

    *_, changed, gone = await told(journal)
    assert (changed.signal_id, changed.value, changed.revoked) == (FEEDBACK_ID, 1.0, False)
    assert (gone.signal_id, gone.revoked) == (FEEDBACK_ID, True)


async def test_annotations_of_the_phoenix_client_reach_span_trace_and_document(
    serve: HttpReceivers,
) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    answers = [await replay(client, call) for call in calls("/v1/", "POST")]

    by_user, anonymous, document, note, on_trace = await told(journal)
    assert (by_user.span_id, by_user.kind, by_user.user_id) == (SPAN, "thumbs_down", "u-7")
    assert (anonymous.span_id, anonymous.kind) == (SPAN, "thumbs_up")
    assert document.document_id == "rank:1"
    assert note.comment == "hello"
    assert (on_trace.trace_id, on_trace.kind) == (TRACE, "thumbs_down")
    assert answers[1].json()["data"] == [{"id": anonymous.signal_id}]
    assert answers[3].json()["data"] == {"id": note.signal_id}


async def test_the_phoenix_client_is_told_a_version_that_takes_session_annotations(
    serve: HttpReceivers,
) -> None:
    client = await serve.in_process(MemoryJournal())
    response = await client.get("/arize_phoenix_version")
    assert tuple(int(part) for part in response.text.split(".")) >= (12, 0, 0)


@pytest.mark.parametrize("prefix", ["", "/ls", "/px", "/api/v1", "/some/proxy"])
async def test_a_prefix_before_the_path_does_not_matter(serve: HttpReceivers, prefix: str) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    run = {"run_id": FEEDBACK_ID, "key": "user_score", "score": 0}
    await client.post(f"{prefix}/feedback", json=run)
    note = {"data": {"span_id": SPAN, "note": "hello"}}
    await client.post(f"{prefix}/v1/span_notes", json=note)
    assert len(await told(journal)) == 2


async def test_scores_of_evaluators_are_counted_and_not_kept(
    serve: HttpReceivers, metrics: Metrics
) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    body = json.loads((RECORDED / "phoenix-document-annotations.json").read_text())["body"]

    response = await client.post("/v1/document_annotations", json=body)
    await client.post(
        "/api/public/scores", json={"traceId": TRACE, "name": "faithfulness", "value": 0.2}
    )

    assert response.status_code == 200
    assert await told(journal) == []
    assert counted(metrics, "scores_ignored", reason="machine") == 1
    assert counted(metrics, "scores_ignored", reason="unnamed") == 1
    assert counted(metrics, "scores_ignored", reason="experiment") == 0


async def test_a_retry_of_any_client_is_the_same_signal(serve: HttpReceivers) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    for call in [*CALLS, *CALLS]:
        await replay(client, call)
    signals = await told(journal)
    half = len(signals) // 2
    assert [s.signal_id for s in signals[:half]] == [s.signal_id for s in signals[half:]]


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer s3cret"},
        {"authorization": "Basic cGs6czNjcmV0"},  # pk:s3cret, as Langfuse's client sends it
        {"x-api-key": "s3cret"},
        {"api_key": "s3cret"},
    ],
)
async def test_each_client_may_show_the_token_in_its_own_way(
    serve: HttpReceivers, headers: dict[str, str]
) -> None:
    client = await serve.in_process(MemoryJournal(), token="s3cret")
    body = {"run_id": FEEDBACK_ID, "key": "user_score", "score": 0}
    assert (await client.post("/feedback", json=body, headers=headers)).status_code == 200
    wrong = {name: value.replace("s3cret", "x") for name, value in headers.items()}
    if "Basic" not in headers.get("authorization", ""):
        assert (await client.post("/feedback", json=body, headers=wrong)).status_code == 401
    assert (await client.post("/feedback", json=body)).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/api/public/scores", "POST"),
        ("DELETE", "/v1/span_annotations", "POST"),
        ("POST", f"/feedback/{FEEDBACK_ID}", "DELETE, PATCH"),
    ],
)
async def test_other_methods_are_answered_405_with_the_right_ones(
    serve: HttpReceivers, method: str, path: str, allowed: str
) -> None:
    client = await serve.in_process(MemoryJournal())
    response = await client.request(method, path, headers=JSON)
    assert response.status_code == 405
    assert response.headers["allow"] == allowed


async def test_a_body_that_is_no_feedback_is_refused_with_field_and_cure(
    serve: HttpReceivers,
) -> None:
    client = await serve.in_process(MemoryJournal())
    response = await client.post("/v1/span_annotations", json={"annotations": []})
    assert response.status_code == 400
    assert "data: missing; send an array of annotations" in response.json()["message"]


async def test_a_recorded_time_is_kept(serve: HttpReceivers) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    body = json.loads((RECORDED / "langsmith-sdk-feedback.json").read_text())["body"]
    await client.post("/feedback", json=body)
    (signal,) = await told(journal)
    assert signal.occurred_at == datetime(2026, 11, 29, 21, 35, 21, 586115, tzinfo=UTC)
