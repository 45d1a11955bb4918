"""Signals in the stores: looked up from both sides, joined by readers in either order."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from collector.conversations import conversation_turns
from collector.model import Signal, StoredRequest
from collector.ports import Store
from collector.signals import complained_about
from collector.worst import worst_conversations
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, decision, stored

WEEK = AT - timedelta(days=7)


def fresh() -> str:
    return uuid4().hex


def signal(**fields: Any) -> Signal:
    plain = Signal(
        signal_id=fresh(), kind="thumbs_down", occurred_at=AT, received_at=AT, sentiment=-1
    )
    return msgspec.structs.replace(plain, **fields)


def request(trace_id: str = "", **fields: Any) -> StoredRequest:
    span_ids = fields.pop("span_ids", [])
    return msgspec.structs.replace(stored(trace_id or fresh(), **fields), span_ids=span_ids)


FULL = Signal(
    signal_id="",
    kind="rating",
    occurred_at=AT,
    received_at=AT + timedelta(seconds=3),
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    span_id="00f067aa0ba902b7",
    response_id="chatcmpl-1",
    message_id="m1",
    conversation_id="c1",
    value=1.0,
    raw_value="1",
    scale="1..5",
    name="user-rating",
    sentiment=-1,
    comment="Der Preis ist alt 🦉",
    document_id="rank:1",
    user_id="u-7",
    source="langfuse",
)


async def test_a_signal_reads_back_as_it_was_written(store: Store) -> None:
    one = msgspec.structs.replace(FULL, signal_id=fresh())
    await store.write_signals([one])
    assert await store.signals_with([one.signal_id, "unknown"]) == [one]
    assert await store.signals_with([]) == []


async def test_the_latest_word_of_a_signal_counts_in_any_order(store: Store) -> None:
    first = signal(trace_id=fresh())
    second = msgspec.structs.replace(
        first, sentiment=1, kind="thumbs_up", occurred_at=AT + timedelta(seconds=1)
    )
    for messages in ([first, second], [second, first], [second], [first]):
        await store.write_signals(messages)
        assert await store.signals_with([first.signal_id]) == [second]


async def test_span_ids_and_a_raised_decision_read_back_as_they_were_written(store: Store) -> None:
    decided = decision(upstream=0.5, first_probability=0.05, first_sampled=False)
    row = request(span_ids=["00f067aa0ba902b7", "00f067aa0ba902b8"], decided=decided)
    await store.write_requests([row])
    found = (await store.requests([row.request.trace_id]))[row.request.trace_id]
    assert (found.span_ids, found.decision) == (row.span_ids, decided)
    assert (await store.known([row.request.trace_id]))[row.request.trace_id].decision == decided


async def test_requests_are_found_by_any_id_a_signal_has(store: Store) -> None:
    ids = {field: fresh() for field in ("response_id", "message_id", "conversation_id")}
    rows = [
        request(span_ids=["0" * 15 + "1", fresh()[:16]]),
        request(response_ids=["x", ids["response_id"]]),
        request(message_id=ids["message_id"]),
        request(conversation_id=ids["conversation_id"]),
        request(),
    ]
    await store.write_requests(rows)
    by_span = {"span_id": rows[0].span_ids[1]}
    targets = [by_span, *({field: found} for field, found in ids.items())]
    targets.append({"trace_id": rows[4].request.trace_id})
    for row, target in zip(rows, targets, strict=True):
        found = await store.candidates([signal(**target)], WEEK)
        assert row.request.trace_id in found
    everything = await store.candidates([signal(**target) for target in targets], WEEK)
    assert set(everything) >= {row.request.trace_id for row in rows}
    assert await store.candidates([signal(message_id="nobody's")], WEEK) == []
    assert await store.candidates([], WEEK) == []


async def test_complaints_are_found_by_any_id_a_request_has(store: Store) -> None:
    row = request(
        span_ids=[fresh()[:16]],
        response_ids=[fresh()],
        message_id=fresh(),
        conversation_id=fresh(),
    )
    about = [
        signal(trace_id=row.request.trace_id),
        signal(span_id=row.span_ids[0]),
        signal(response_id=row.request.response_ids[0]),
        signal(message_id=row.request.message_id),
        signal(conversation_id=row.request.conversation_id),
    ]
    others = [
        signal(trace_id=fresh()),
        signal(trace_id=row.request.trace_id, sentiment=1, kind="thumbs_up"),
        signal(trace_id=row.request.trace_id, sentiment=0, kind="copy"),
    ]
    await store.write_signals([*about, *others])
    found = await store.complaints([row], WEEK)
    assert {s.signal_id for s in found} == {s.signal_id for s in about}
    assert complained_about([row], found) == [row]
    assert await store.complaints([], WEEK) == []


async def test_a_complaint_that_was_taken_back_is_none(store: Store) -> None:
    row = request()
    said = signal(trace_id=row.request.trace_id)
    # As a deletion by id comes: it names no target.
    gone = signal(
        signal_id=said.signal_id,
        kind="comment",
        sentiment=0,
        revoked=True,
        occurred_at=AT + timedelta(minutes=1),
    )
    for messages in ([said], [gone], [said]):
        await store.write_signals(messages)
    assert await store.complaints([row], WEEK) == []


async def test_requests_out_of_reach_are_left_out(clickhouse: ClickHouseStore) -> None:
    message = fresh()
    await clickhouse.write_requests(
        [request(message_id=message, started_at=AT - timedelta(days=10))]
    )
    assert await clickhouse.candidates([signal(message_id=message)], WEEK) == []


# --- Readers -----------------------------------------------------------------------------

TARGETS = ("trace_id", "span_id", "response_id", "message_id", "conversation_id")


def target_and_row(field: str) -> tuple[str, StoredRequest]:
    trace_id, found = fresh(), fresh()
    own: dict[str, Any] = {
        "trace_id": {},
        "span_id": {"span_ids": [found[:16]]},
        "response_id": {"response_ids": [found]},
        "message_id": {"message_id": found},
        "conversation_id": {"conversation_id": found},
    }
    target = {"trace_id": trace_id, "span_id": found[:16]}.get(field, found)
    return target, request(trace_id, question="Q?", answer="A.", **own[field])


@pytest.mark.parametrize("field", TARGETS)
@pytest.mark.parametrize("first", ["signal", "request"])
async def test_readers_join_signal_and_request_whichever_came_first(
    clickhouse: ClickHouseStore, field: str, first: str
) -> None:
    target, row = target_and_row(field)
    said = signal(**{field: target}, comment="old price", source="phoenix")
    if first == "signal":
        await clickhouse.write_signals([said])
        await clickhouse.write_requests([row])
    else:
        await clickhouse.write_requests([row])
        await clickhouse.write_signals([said])
    conversation = row.request.conversation_id or row.request.trace_id

    worst = await worst_conversations(clickhouse, around(AT) | {"segment": ""}, 1000)
    (found,) = [one for one in worst if one["conversation"] == conversation]
    assert found["thumbs_down"] == 3.0
    assert [s["signal_id"] for s in found["signals"]] == [said.signal_id]

    (turn,) = await conversation_turns(clickhouse, conversation, "", most=50, fingerprint="current")
    where = "conversation_signals" if field == "conversation_id" else "signals"
    assert [s["signal_id"] for s in turn[where]] == [said.signal_id]


async def test_a_signal_that_names_trace_and_span_counts_once(clickhouse: ClickHouseStore) -> None:
    span_id = fresh()[:16]
    row = request(span_ids=[span_id])
    await clickhouse.write_requests([row])
    await clickhouse.write_signals([signal(trace_id=row.request.trace_id, span_id=span_id)])
    worst = await worst_conversations(clickhouse, around(AT) | {"segment": ""}, 1000)
    (found,) = [one for one in worst if one["conversation"] == row.request.trace_id]
    assert found["thumbs_down"] == 3.0
    assert len(found["signals"]) == 1


async def test_signals_are_kept_as_long_as_requests_and_no_longer(
    clickhouse: ClickHouseStore,
) -> None:
    old = AT - timedelta(days=70)
    said = signal(trace_id=fresh(), occurred_at=old, received_at=old)
    await clickhouse.write_signals([said])
    assert await clickhouse.signals_with([said.signal_id]) == [said]
    await clickhouse.drop_before(AT - timedelta(days=56))
    assert await clickhouse.signals_with([said.signal_id]) == []


def around(day: datetime) -> dict[str, Any]:
    return {
        "since": day - timedelta(days=1),
        "until": day + timedelta(days=1),
        "fingerprint": "current",
    }
