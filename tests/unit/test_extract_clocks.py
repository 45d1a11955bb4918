"""Services whose clocks disagree: the steps of a request still come in their true order."""

from __future__ import annotations

from typing import Any

import pytest

from collector.model import Span
from tests.fakes.requests import chain, ids_of, llm, record, retriever
from tests.fakes.spans import START_NS, span

MINUTE_NS = 60 * 10**9
SKEWS = [-60 * MINUTE_NS, -MINUTE_NS, -1_000_000_000, 1_000_000_000, MINUTE_NS, 60 * MINUTE_NS]


def step(
    number: int,
    attributes: dict[str, Any],
    at_ms: tuple[int, int],
    *,
    parent: int | None,
    service: str = "assistant",
    skew_ns: int = 0,
) -> Span:
    start, end = (START_NS + ms * 1_000_000 + skew_ns for ms in at_ms)
    return span(
        number,
        attributes,
        parent=parent,
        start_ns=start,
        end_ns=end,
        resource={"service.name": service},
    )


def rerank(*ids: str) -> dict[str, Any]:
    found: dict[str, Any] = {"openinference.span.kind": "RERANKER"}
    for number, document_id in enumerate(ids):
        found[f"reranker.output_documents.{number}.document.id"] = document_id
        found[f"reranker.output_documents.{number}.document.content"] = document_id
    return found


@pytest.mark.parametrize("skew_ns", [0, *SKEWS])
def test_a_search_in_a_service_with_another_clock_comes_before_the_reranker(skew_ns: int) -> None:
    request = record(
        step(0, chain(), (0, 1000), parent=None),
        step(1, {"http.request.method": "POST"}, (90, 310), parent=0),
        step(2, retriever("a", "b", "c"), (100, 300), parent=1, service="kb", skew_ns=skew_ns),
        step(3, rerank("c", "a"), (400, 500), parent=0),
        step(4, llm(), (550, 950), parent=0),
    )
    assert ids_of(request) == ["c", "a"]
    assert [stage.kind for stage in request.stages] == ["retriever", "reranker", "llm"]
    assert [stage.latency_ms for stage in request.stages] == [200, 100, 400]


@pytest.mark.parametrize("skew_ns", [0, *SKEWS])
def test_the_request_starts_and_lasts_as_its_root_says(skew_ns: int) -> None:
    request = record(
        step(0, {"http.request.method": "POST"}, (0, 1000), parent=None, service="gateway"),
        step(1, chain(), (50, 950), parent=0, skew_ns=skew_ns),
        step(2, retriever("a"), (60, 200), parent=1, skew_ns=skew_ns),
        step(3, llm(), (300, 900), parent=1, skew_ns=skew_ns),
    )
    assert (request.question, request.answer) == ("Q?", "A.")
    assert request.started_at is not None
    assert request.started_at.timestamp() == START_NS / 10**9
    assert request.latency_ms == 1000


@pytest.mark.parametrize("skew_ns", [0, *SKEWS])
def test_the_last_of_two_answers_is_the_answer_whatever_the_clock_of_the_first(
    skew_ns: int,
) -> None:
    request = record(
        step(0, {"http.request.method": "POST"}, (0, 2000), parent=None),
        step(1, {"rpc.system": "grpc"}, (10, 700), parent=0),
        step(2, llm("Q?", "A draft."), (20, 600), parent=1, service="writer", skew_ns=skew_ns),
        step(3, llm("Q?", "The answer."), (800, 1900), parent=0),
    )
    assert request.answer == "The answer."


def test_work_that_goes_on_after_its_parent_is_left_where_it_is() -> None:
    """A queue: the caller is done at once, the other service works on."""
    request = record(
        step(0, chain("Q?", None), (0, 10), parent=None),
        step(1, llm(), (500, 3000), parent=0, service="worker"),
    )
    assert request.answer == "A."
    assert request.latency_ms == 10


def test_one_machine_has_one_clock() -> None:
    """Two services on one host: what does not fit was asynchronous and is not moved."""
    host = {"host.name": "node-1"}
    request = record(
        span(0, chain(), start_ns=START_NS, end_ns=START_NS + 10**9, resource=host),
        span(
            1,
            llm("Q?", "Late."),
            parent=0,
            start_ns=START_NS + 5 * 10**9,
            end_ns=START_NS + 5 * 10**9 + 10**8,
            resource={**host, "service.name": "other"},
        ),
        span(
            2,
            retriever("a"),
            parent=0,
            start_ns=START_NS + 2 * 10**9,
            end_ns=START_NS + 2 * 10**9 + 10**8,
            resource=host,
        ),
    )
    assert [stage.kind for stage in request.stages] == ["retriever", "llm"]
