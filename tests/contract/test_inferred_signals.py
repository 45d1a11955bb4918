"""What was inferred, on the real engine: how it is looked up, weighed, and not doubled."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from collector.conversations import conversation_turns
from collector.inference import KINDS
from collector.model import Signal, SignalKind
from collector.worst import worst_conversations
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, stored

MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def store(clickhouse: ClickHouseStore) -> ClickHouseStore:
    return clickhouse


def fresh() -> str:
    return uuid4().hex


def inferred(trace_id: str, kind: SignalKind, confidence: float, **fields: Any) -> Signal:
    return Signal(
        signal_id=f"inferred-{kind}-{trace_id}",
        kind=kind,
        occurred_at=AT,
        received_at=fields.pop("received_at", AT),
        trace_id=trace_id,
        sentiment=-1,
        source="inferred",
        confidence=confidence,
        reason="the words come again",
        **fields,
    )


def sent(kind: SignalKind, at: datetime = AT, **fields: Any) -> Signal:
    return Signal(signal_id=fresh(), kind=kind, occurred_at=at, received_at=at, **fields)


async def turns(store: ClickHouseStore, *talks: str, most: int = 50) -> list[dict[str, Any]]:
    asked = {"conversations": list(talks), "turns": most, "kinds": KINDS}
    return await store.rows("turns", asked)


async def worst(store: ClickHouseStore, segment: str) -> dict[str, Any]:
    asked = {"segment": segment, "fingerprint": "none"}
    window = {"since": AT - 60 * MINUTE, "until": AT + 60 * MINUTE}
    (row,) = await worst_conversations(store, window | asked, 5)
    return row


async def test_turns_come_in_order_of_time_by_their_newest_version(store: ClickHouseStore) -> None:
    talk, other, first, second = fresh(), fresh(), fresh(), fresh()
    await store.write_requests(
        [
            stored(second, started_at=AT + MINUTE, conversation_id=talk, question="And then?"),
            stored(first, started_at=AT, conversation_id=talk, question="half"),
            stored(fresh(), started_at=AT, conversation_id=other, question="Elsewhere?"),
            stored(fresh(), started_at=AT, question="Alone?"),
        ]
    )
    newer = stored(first, 2, started_at=AT, conversation_id=talk, question="Whole?", answer="Yes.")
    await store.write_requests([newer])
    rows = await turns(store, talk)
    assert [(r["trace_id"], r["question"], r["answer"]) for r in rows] == [
        (first, "Whole?", "Yes."),
        (second, "And then?", None),
    ]
    assert [row["at"] for row in rows] == [AT, AT + MINUTE]
    assert [(row["clicked"], row["inferred"]) for row in rows] == [(0, []), (0, [])]
    assert [r["trace_id"] for r in await turns(store, talk, most=1)] == [second]
    assert {r["conversation_id"] for r in await turns(store, talk, other)} == {talk, other}


async def test_opened_documents_of_an_answer_count_each_once_less_those_taken_back(
    store: ClickHouseStore,
) -> None:
    talk, trace = fresh(), fresh()
    row = stored(trace, conversation_id=talk, response_ids=[f"{trace}-r"], message_id=f"{trace}-m")
    await store.write_requests([row, stored(fresh(), conversation_id=talk)])
    again = sent("citation_click", trace_id=trace, document_id="d1")
    await store.write_signals(
        [
            again,
            sent("citation_click", trace_id=trace, document_id="d1"),
            sent("citation_click", response_id=f"{trace}-r", document_id="d2"),
            sent("citation_click", message_id=f"{trace}-m", document_id="d3"),
            sent("citation_click", conversation_id=talk, document_id="d4"),
            sent("citation_click", trace_id=trace, document_id="d5", revoked=True),
            sent("copy", trace_id=trace, document_id="d6"),
        ]
    )
    assert {r["trace_id"]: r["clicked"] for r in await turns(store, talk)}[trace] == 3


async def test_what_is_stored_of_a_turn_is_its_latest_word(store: ClickHouseStore) -> None:
    talk, trace = fresh(), fresh()
    await store.write_requests([stored(trace, conversation_id=talk)])
    await store.write_signals([inferred(trace, "rephrase", 0.8), inferred(trace, "abandon", 0.5)])
    back = inferred(trace, "abandon", 0.5, received_at=AT + MINUTE, revoked=True)
    surer = inferred(trace, "rephrase", 0.9, received_at=AT + MINUTE)
    await store.write_signals([back, surer])
    (row,) = await turns(store, talk)
    assert row["inferred"] == [("rephrase", 0.9, "the words come again")]


async def test_conversations_of_a_window_are_listed_once(store: ClickHouseStore) -> None:
    day = AT - timedelta(days=20)
    talk = fresh()
    await store.write_requests(
        [
            stored(fresh(), started_at=day, conversation_id=talk),
            stored(fresh(), started_at=day + MINUTE, conversation_id=talk),
            stored(fresh(), started_at=day + MINUTE),
            stored(fresh(), started_at=day + 2 * MINUTE, conversation_id=fresh()),
        ]
    )
    window = {"since": day, "until": day + 2 * MINUTE}
    assert await store.rows("conversations_of_window", window) == [{"conversation_id": talk}]


async def test_an_inferred_signal_weighs_as_much_as_it_is_sure(store: ClickHouseStore) -> None:
    trace, segment = fresh(), fresh()
    await store.write_requests([stored(trace, segment=segment)])
    await store.write_signals([inferred(trace, "rephrase", 0.8)])
    row = await worst(store, segment)
    assert (row["rephrase"], row["badness"]) == (pytest.approx(1.2), pytest.approx(1.2))
    (mark,) = row["signals"]
    assert (mark["confidence"], mark["reason"]) == (0.8, "the words come again")


async def test_a_signal_that_was_sent_is_not_doubled_by_one_that_was_inferred(
    store: ClickHouseStore,
) -> None:
    trace, other, talk, segment = fresh(), fresh(), fresh(), fresh()
    await store.write_requests(
        [
            stored(trace, segment=segment, conversation_id=talk, response_ids=[f"{trace}-r"]),
            stored(other, segment=segment, conversation_id=talk, started_at=AT + MINUTE),
        ]
    )
    await store.write_signals(
        [
            inferred(trace, "rephrase", 0.8),
            inferred(trace, "push_back", 0.6),
            inferred(other, "rephrase", 0.9),
            sent("rephrase", response_id=f"{trace}-r", sentiment=-1),
        ]
    )
    row = await worst(store, segment)
    # Sent on the first turn, inferred on the second: 1.5 and 0.9 of 1.5; the push-back stays.
    assert (row["rephrase"], row["push_back"]) == (pytest.approx(2.85), pytest.approx(0.9))
    assert len(row["signals"]) == 3

    rows = await conversation_turns(store, talk, "", most=50, fingerprint="none")
    kinds = [[(s["kind"], s["source"]) for s in r["signals"]] for r in rows]
    assert [sorted(of_turn) for of_turn in kinds] == [
        [("push_back", "inferred"), ("rephrase", "signals")],
        [("rephrase", "inferred")],
    ]

    window = {"since": AT - MINUTE, "until": AT + MINUTE}
    found = [
        (row["kind"], row["inferred"], row["signals"])
        for row in await store.rows("signals_summary", window)
        if row["segment"] == segment
    ]
    assert found == [("push_back", True, 1), ("rephrase", False, 1), ("rephrase", True, 1)]


async def test_engaged_are_conversations_with_a_signal_that_somebody_sent(
    store: ClickHouseStore,
) -> None:
    day = AT - timedelta(days=30)
    engaged, silent, alone, back = fresh(), fresh(), fresh(), fresh()
    silent_trace = fresh()
    await store.write_requests(
        [
            stored(fresh(), started_at=day, segment="a", conversation_id=engaged),
            stored(fresh(), started_at=day + MINUTE, segment="a", conversation_id=engaged),
            stored(silent_trace, started_at=day, segment="a", conversation_id=silent),
            stored(alone, started_at=day, segment="b"),
            stored(back, started_at=day, segment="b"),
        ]
    )
    await store.write_signals(
        [
            sent("thumbs_up", day, conversation_id=engaged),
            sent("copy", day, trace_id=alone),
            sent("thumbs_down", day, trace_id=back, revoked=True),
            inferred(silent_trace, "abandon", 0.5),
        ]
    )
    window = {"since": day, "until": day + 60 * MINUTE}
    rows = await store.rows("engagement", window)
    assert [tuple(row.values()) for row in rows] == [("a", 3, 2, 1), ("b", 2, 2, 1)]


async def test_a_signal_that_is_corrected_to_another_request_engages_that_one_alone(
    store: ClickHouseStore,
) -> None:
    day = AT - timedelta(days=40)
    first, second = fresh(), fresh()
    await store.write_requests(
        [
            stored(first, started_at=day, segment="a"),
            stored(second, started_at=day, segment="b"),
        ]
    )
    said = sent("copy", day, trace_id=first)
    corrected = msgspec.structs.replace(said, trace_id=second, occurred_at=day + MINUTE)
    await store.write_signals([said])
    await store.write_signals([corrected])
    rows = await store.rows("engagement", {"since": day, "until": day + 60 * MINUTE})
    assert [(row["segment"], row["engaged"]) for row in rows] == [("a", 0), ("b", 1)]
