"""Any request becomes a row and comes back the same, but for what no column can hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from collector.model import Document, RagRequest, RequestError, Stage, StoredRequest
from sinks import rows as r
from tests.fakes.store import AT, decision

CLEAN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
ANY_TEXT = st.text(st.characters(), max_size=20)
COUNTS = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def requests(text: st.SearchStrategy[str]) -> st.SearchStrategy[RagRequest]:
    maybe = st.none() | text
    documents = st.builds(
        Document,
        rank=COUNTS,
        document_id=maybe,
        source=maybe,
        text=maybe,
        score=st.none() | NUMBERS,
        score_kind=st.none() | st.sampled_from(["bm25", "rerank"]),
        cited=st.none() | st.booleans(),
    )
    stages = st.builds(
        Stage, kind=st.sampled_from(["llm", "tool"]), query=maybe, documents=st.none() | COUNTS
    )
    return st.builds(
        RagRequest,
        trace_id=text,
        started_at=st.none() | TIMES,
        latency_ms=st.none() | NUMBERS,
        segment=maybe,
        question=maybe,
        answer=maybe,
        documents=st.lists(documents, max_size=3),
        stages=st.lists(stages, max_size=3),
        citations=st.lists(COUNTS, max_size=3),
        input_tokens=st.none() | COUNTS,
        error=st.none() | st.builds(RequestError, stage=maybe, message=maybe),
        flags=st.lists(st.sampled_from(["partial", "truncated"]), max_size=2),
        response_ids=st.lists(text, max_size=2),
    )


def row_of(request: RagRequest) -> dict[str, Any]:
    stored = StoredRequest(request=request, version=1, decision=decision())
    return dict(zip(r.REQUEST_COLUMNS, r.request_row(stored, AT, "batch"), strict=True))


@given(requests(CLEAN))
def test_a_request_survives_the_way_to_a_row_and_back(request: RagRequest) -> None:
    assert r.stored_request(row_of(request)).request == request


@given(requests(ANY_TEXT))
def test_any_request_can_be_encoded(request: RagRequest) -> None:
    back = r.stored_request(row_of(request)).request
    assert msgspec.json.decode(msgspec.json.encode(back), type=RagRequest) == back
    assert "\x00" not in str(back)
