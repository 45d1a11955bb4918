"""A fault of ours in one trace, body or signal: it is set aside, and everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import collector.building
from collector import otlp
from collector.config import Config
from collector.errors import TransientDependencyError
from collector.extract import extract
from collector.inference import SignalInference, conversation_entries
from collector.model import Inferred, Signal, Trace, Turn
from collector.ports import CONVERSATIONS, TELEMETRY, Entry, Record
from collector.telemetry import Metrics
from collector.timing import Patience
from scorers.implicit.detect import infer
from tests.bench.load import bodies, spans_of
from tests.fakes.clocks import StoppedClock
from tests.fakes.conversations import ConversationStore
from tests.fakes.journal import MemoryJournal
from tests.fakes.pipeline import Pipeline
from tests.fakes.store import AT, MemoryStore, stored

WORD = "canary"


def ids_of(body: bytes) -> set[str]:
    return {s.trace_id.hex() for s in spans_of(ExportTraceServiceRequest.FromString(body))}


async def test_a_trace_that_cannot_be_built_is_set_aside_and_its_neighbours_are_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    line = Pipeline(store)
    poisoned, *others = list(bodies(4, 1))
    (bad,) = ids_of(poisoned)

    def failing(trace: Trace, **kwargs: Any) -> Any:
        if trace.trace_id == bad:
            raise ZeroDivisionError(WORD)
        return extract(trace, **kwargs)

    monkeypatch.setattr(collector.building, "extract", failing)
    with structlog.testing.capture_logs() as logs:
        async with line.running():
            await line.journal.append(
                [Entry(TELEMETRY, "otlp_traces", "", body) for body in (poisoned, *others)]
            )
            await line.until_idle()
    async with line.running():  # no poison left to restart with
        await line.until_idle()

    ((letter, reason),) = line.letters.kept
    assert (letter.kind, letter.key, reason) == ("trace", bad, "internal")
    assert otlp.decode_trace(letter.body).trace_id == bad
    assert set(store.by_trace) == set().union(*map(ids_of, others))
    (told,) = [log for log in logs if log["event"] == "trace_set_aside"]
    assert told == {
        "event": "trace_set_aside",
        "log_level": "error",
        "error": "ZeroDivisionError",
        "trace_id": bad,
    }
    assert WORD not in str(logs)


async def test_a_body_that_cannot_be_handled_is_set_aside_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    line = Pipeline(store)
    poisoned, other = list(bodies(2, 1))
    decode = otlp.decode_traces

    def failing(body: bytes, content_type: str) -> Any:
        if body == poisoned:
            raise KeyError(WORD)
        return decode(body, content_type)

    monkeypatch.setattr(otlp, "decode_traces", failing)
    async with line.running():
        await line.journal.append(
            [Entry(TELEMETRY, "otlp_traces", "", body) for body in (poisoned, other)]
        )
        await line.until_idle()
        assert line.count("dead_letters_total", reason="internal") == 1

    assert [(record.body, reason) for record, reason in line.letters.kept] == [
        (poisoned, "internal")
    ]
    assert set(store.by_trace) == ids_of(other)


def signal(number: int, **fields: Any) -> Signal:
    return Signal(
        signal_id=f"s{number}",
        kind="thumbs_down",
        occurred_at=AT,
        received_at=AT,
        trace_id=f"{number + 1:032x}",
        **fields,
    )


async def test_a_signal_that_cannot_be_handled_is_set_aside_alone() -> None:
    store = MemoryStore()
    line = Pipeline(store)
    write = store.write_signals

    async def failing(rows: Any) -> None:
        if any(row.comment == WORD for row in rows):
            raise TypeError(WORD)
        await write(rows)

    store.write_signals = failing  # type: ignore[method-assign]
    with structlog.testing.capture_logs() as logs:
        async with line.running():
            await line.tell(signal(1), signal(2, comment=WORD), signal(3))
            await line.until_idle()

    assert set(store.signals) == {"s1", "s3"}
    assert [reason for _, reason in line.letters.kept] == ["internal"]
    assert WORD not in str(logs)


async def test_what_is_unreadable_waits_for_dead_letters_that_cannot_be_written_now() -> None:
    store = MemoryStore()
    line = Pipeline(store)
    tries = 0
    keep = line.letters.append

    def full(record: Record, reason: str) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise TransientDependencyError("dead letters: not written: No space left on device")
        keep(record, reason)

    line.letters.append = full  # type: ignore[method-assign]
    other = next(iter(bodies(1, 1)))
    async with line.running():
        await line.journal.append(
            [
                Entry(TELEMETRY, "otlp_traces", "", b"\xff\xff not protobuf"),
                Entry(TELEMETRY, "otlp_traces", "", other),
            ]
        )
        await line.until_idle()

    assert [reason for _, reason in line.letters.kept] == ["malformed"]
    assert set(store.by_trace) == ids_of(other)


async def test_a_conversation_that_cannot_be_compared_leaves_the_others_to_be(
    metrics: Metrics,
) -> None:
    store, journal = ConversationStore(), MemoryJournal()
    rows = [
        stored(f"{number:032x}", conversation_id=talk, question="How do I cancel my subscription?")
        for number, talk in enumerate(["bad", "bad", "good", "good"], 1)
    ]
    await store.write_requests(rows)

    def failing(turns: Sequence[Turn], now: datetime) -> list[Inferred]:
        if turns[0].trace_id == rows[0].request.trace_id:
            raise RecursionError(WORD)
        return infer(turns, now, inferring)

    inferring = Config().implicit
    consumer = await journal.consumer(CONVERSATIONS, "g")
    inference = SignalInference(
        consumer=consumer,
        store=store,
        infer=failing,
        config=inferring,
        metrics=metrics,
        clock=StoppedClock(AT),
    )
    await journal.append(conversation_entries(rows))
    with structlog.testing.capture_logs() as logs:
        await inference.follow(Patience(asyncio.Event(), lambda _: None))

    assert {(trace_id, kind) for trace_id, kind, *_ in store.inferred()} == {
        (rows[2].request.trace_id, "regenerate")
    }
    assert await consumer.lag() == (0, 0.0)
    assert [log["conversation_id"] for log in logs] == ["bad"]
    assert WORD not in str(logs)
