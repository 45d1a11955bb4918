"""The order of durable steps: nothing committed before it is stored, nothing counted twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.accounting import Accounting
from collector.building import LocalScore
from collector.config import Config
from collector.errors import PermanentDependencyError, TransientDependencyError
from collector.model import JudgeTask, RagRequest
from collector.pipeline import Processor
from collector.ports import JUDGE, TELEMETRY, Entry, Record
from collector.telemetry import Metrics
from collector.timing import SystemClock
from tests.bench.load import DATA, bodies, spans_of
from tests.fakes.journal import MemoryJournal
from tests.fakes.store import MemoryStore

RECORDED = ("openinference-langchain", "openinference-llamaindex", "openllmetry-langchain")
CONFIG = {"assembler": {"quiet_seconds": 0.05, "rootless_seconds": 0.2}}


class Letters:
    def __init__(self) -> None:
        self.kept: list[tuple[Record, str]] = []

    def append(self, record: Record, reason: str) -> None:
        self.kept.append((record, reason))


class Rig:
    """A processor on fakes."""

    def __init__(self, metrics: Metrics, **config: Any) -> None:
        self.metrics = metrics
        self.config = Config.model_validate({**CONFIG, **config})
        self.journal = MemoryJournal()
        self.store = MemoryStore()
        self.letters = Letters()
        self.local = LocalScore(0.5, None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        consumer = await self.journal.consumer(TELEMETRY, "g")
        processor = Processor(
            consumer=consumer,
            journal=self.journal,
            store=self.store,
            score=lambda _: self.local,
            foreseen=lambda decision, _: decision,
            dead_letters=self.letters,
            accounting=Accounting(self.metrics, "f"),
            metrics=self.metrics,
            config=self.config,
            clock=SystemClock(),
        )
        stop = asyncio.Event()
        task = asyncio.create_task(processor.run(stop))
        try:
            yield
        finally:
            stop.set()
            await task
            await consumer.close()

    async def send(self, *payloads: bytes) -> None:
        await self.journal.append([Entry(TELEMETRY, "otlp_traces", "", b) for b in payloads])

    def tasks(self) -> list[JudgeTask]:
        return [
            msgspec.msgpack.decode(entry.body, type=JudgeTask)
            for entry in self.journal.entries
            if entry.topic == JUDGE
        ]

    def committed(self) -> int:
        return self.journal.log.positions[(TELEMETRY, "g")]

    def count(self, name: str, **labels: str) -> float:
        total = 0.0
        for family in self.metrics.registry.collect():
            for sample in family.samples:
                if sample.name == f"groundwatch_{name}" and labels.items() <= sample.labels.items():
                    total += sample.value
        return total


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    async def wait() -> None:
        while not condition():  # noqa: ASYNC110 - looks at state of another task
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), seconds)


def one_trace(recorded: str = "openinference-langchain") -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString((DATA / f"{recorded}.pb").read_bytes())


def split(request: ExportTraceServiceRequest, *, roots: bool) -> bytes:
    """Return the part of a request with its roots, or the part without them."""
    part = ExportTraceServiceRequest()
    part.CopyFrom(request)
    for resource in part.resource_spans:
        for scope in resource.scope_spans:
            kept = [s for s in scope.spans if (not s.parent_span_id) == roots]
            copies = [type(s).FromString(s.SerializeToString()) for s in kept]
            del scope.spans[:]
            scope.spans.extend(copies)
    return part.SerializeToString()


async def test_requests_are_stored_then_queued_for_the_judge_then_committed(
    metrics: Metrics,
) -> None:
    rig = Rig(metrics)
    async with rig.running():
        await rig.send(*bodies(3, 4))
        await until(lambda: rig.committed() == 4)
    assert len(rig.store.by_trace) == 12
    assert {task.request.trace_id for task in rig.tasks()} == set(rig.store.by_trace)
    assert rig.count("requests_waiting") == 12
    assert rig.count("accounting_difference") == 0


async def test_nothing_is_committed_while_the_store_is_down(metrics: Metrics) -> None:
    rig = Rig(metrics)
    rig.store.fail_next(10_000, TransientDependencyError("down"))
    async with rig.running():
        await rig.send(*bodies(1, 2))
        await asyncio.sleep(0.5)
        assert rig.committed() == 0
    assert rig.committed() == 0
    assert rig.tasks() == []
    assert rig.count("requests_total") == 0


async def test_an_outage_is_waited_out(metrics: Metrics) -> None:
    rig = Rig(metrics)
    rig.store.fail_next(3, TransientDependencyError("down"))
    async with rig.running():
        await rig.send(*bodies(1, 2))
        await until(lambda: rig.committed() == 2)
    assert len(rig.store.by_trace) == 2


async def test_a_write_in_doubt_is_repeated_and_counted_once(metrics: Metrics) -> None:
    rig = Rig(metrics)
    rig.store.fail_next(1, TransientDependencyError("reply lost"), after_writing=True)
    async with rig.running():
        await rig.send(*bodies(1, 2))
        await until(lambda: rig.committed() == 2)
    assert rig.count("requests_total") == 2


async def test_a_replay_after_a_crash_counts_nothing_again(metrics: Metrics) -> None:
    rig = Rig(metrics)
    payloads = list(bodies(1, 3))
    async with rig.running():
        await rig.send(*payloads)
        await until(lambda: rig.committed() == 2)
    writes = rig.store.writes
    async with rig.running():
        await rig.send(*payloads)
        await until(lambda: rig.committed() > 3)
    assert rig.store.writes == writes
    assert rig.count("requests_total") == 3
    # Whether the first process got as far as queueing cannot be known: the task is there again,
    # but it no longer enters the request into the accounting.
    assert [task.counted for task in rig.tasks()] == [True] * 3 + [False] * 3


async def test_a_replay_keeps_the_first_decision(metrics: Metrics) -> None:
    rig = Rig(metrics, sampling={"rate": 1.0})
    (payload,) = bodies(1, 1)
    async with rig.running():
        await rig.send(payload)
        await until(lambda: bool(rig.store.by_trace))
    (before,) = rig.store.by_trace.values()
    later = Rig(metrics, sampling={"rate": 0.001, "salt": "another"})
    later.store = rig.store
    request = ExportTraceServiceRequest.FromString(payload)
    extra = ExportTraceServiceRequest()
    extra.CopyFrom(request)
    for span in spans_of(extra):
        span.span_id = bytes(reversed(span.span_id))
        span.parent_span_id = request.resource_spans[0].scope_spans[0].spans[0].span_id
    async with later.running():
        await later.send(extra.SerializeToString())
        await until(lambda: later.committed() == 2)
    (after,) = rig.store.by_trace.values()
    assert after.version > before.version
    assert after.decision == before.decision


async def test_a_trace_over_several_bodies_is_one_request(metrics: Metrics) -> None:
    rig = Rig(metrics)
    whole = one_trace()
    async with rig.running():
        await rig.send(split(whole, roots=False))
        await asyncio.sleep(0.1)
        await rig.send(split(whole, roots=True))
        await until(lambda: rig.committed() == 3)
    (row,) = rig.store.by_trace.values()
    assert row.request.question == "What is the return policy?"
    assert len(row.request.documents) == 3
    assert rig.count("requests_total") == 1


async def test_late_spans_after_a_restart_are_merged_with_what_is_stored(metrics: Metrics) -> None:
    rig = Rig(metrics)
    whole = one_trace()
    async with rig.running():
        await rig.send(split(whole, roots=True))
        await until(lambda: rig.committed() == 2)
    assert next(iter(rig.store.by_trace.values())).request.documents == []
    async with rig.running():  # a new processor: it has forgotten everything
        await rig.send(split(whole, roots=False))
        await until(lambda: rig.committed() > 2)
    (row,) = rig.store.by_trace.values()
    assert row.request.question == "What is the return policy?"
    assert len(row.request.documents) == 3
    assert rig.count("requests_total") == 1
    assert rig.count("accounting_difference") == 0


def alone(request: ExportTraceServiceRequest) -> list[bytes]:
    """Return each span of a request in a body of its own."""
    bodies = []
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                body = ExportTraceServiceRequest()
                part = body.resource_spans.add(resource=resource.resource)
                part.scope_spans.add(scope=scope.scope, spans=[span])
                bodies.append(body.SerializeToString())
    return bodies


@pytest.mark.parametrize("recorded", RECORDED)
async def test_spans_come_one_by_one_the_search_first_each_to_a_process_that_knows_nothing(
    metrics: Metrics, recorded: str
) -> None:
    rig = Rig(metrics)
    whole = one_trace(recorded)
    parts = alone(whole)
    random.Random(1).shuffle(parts)
    parts.sort(key=lambda body: b"RETRIEVER" not in body and b"vector_db" not in body)
    for body in parts:
        before = rig.journal.log.positions.get((TELEMETRY, "g"), 0)
        async with rig.running():
            await rig.send(body)
            await until(lambda before=before: rig.committed() > before)  # type: ignore[misc]
    (row,) = rig.store.by_trace.values()
    assert len(row.span_ids) == len(parts)
    at_once = Rig(metrics)
    async with at_once.running():
        await at_once.send(whole.SerializeToString())
        await until(lambda: bool(at_once.store.by_trace))
    assert row.request == next(iter(at_once.store.by_trace.values())).request


async def test_of_a_whole_trace_about_something_else_nothing_is_kept(metrics: Metrics) -> None:
    rig = Rig(metrics)
    body = ExportTraceServiceRequest()
    spans = body.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=b"t" * 16, span_id=b"r" * 8, name="GET /", end_time_unix_nano=2)
    spans.add(
        trace_id=b"t" * 16,
        span_id=b"c" * 8,
        parent_span_id=b"r" * 8,
        name="SELECT",
        end_time_unix_nano=2,
    )
    async with rig.running():
        await rig.send(body.SerializeToString())
        await until(lambda: rig.count("traces_ignored_total", reason="no_genai") == 1)
    assert (rig.store.by_trace, rig.store.kept) == ({}, {})


async def test_unreadable_records_are_set_aside_and_the_stream_goes_on(metrics: Metrics) -> None:
    rig = Rig(metrics)
    async with rig.running():
        await rig.send(b"\xff\xff not protobuf", *bodies(1, 1))
        await until(lambda: rig.committed() == 3)
    assert [reason for _, reason in rig.letters.kept] == ["malformed"]
    assert len(rig.store.by_trace) == 1
    assert rig.count("dead_letters_total", reason="malformed") == 1


async def test_a_row_refused_for_good_does_not_hold_up_its_neighbours(metrics: Metrics) -> None:
    rig = Rig(metrics)
    poisoned = next(iter(bodies(1, 1, seed=99)))
    bad = {s.trace_id.hex() for s in spans_of(ExportTraceServiceRequest.FromString(poisoned))}
    refuse(rig, lambda trace_id: trace_id in bad)
    async with rig.running():
        await rig.send(poisoned, *bodies(1, 3))
        await until(lambda: rig.committed() > 2)
    assert len(rig.store.by_trace) == 3
    assert [reason for _, reason in rig.letters.kept] == ["store_refused"]
    assert rig.count("requests_total") == 3


async def test_a_row_refused_for_good_is_set_aside_also_when_it_comes_alone(
    metrics: Metrics,
) -> None:
    rig = Rig(metrics)
    poisoned = next(iter(bodies(1, 1, seed=99)))
    bad = {s.trace_id.hex() for s in spans_of(ExportTraceServiceRequest.FromString(poisoned))}
    refuse(rig, lambda trace_id: trace_id in bad)
    async with rig.running():
        await rig.send(*bodies(1, 1))
        await until(lambda: len(rig.store.by_trace) == 1)
        await rig.send(poisoned)
        await until(lambda: len(rig.letters.kept) == 1)
    assert [reason for _, reason in rig.letters.kept] == ["store_refused"]
    assert rig.count("requests_total") == 1


async def test_a_store_that_begins_to_refuse_everything_stops_us(metrics: Metrics) -> None:
    rig = Rig(metrics)
    asked: list[str] = []

    def is_bad(trace_id: str) -> bool:
        asked.append(trace_id)
        return len(asked) > 1

    refuse(rig, is_bad)
    try:
        async with rig.running():
            await rig.send(*bodies(1, 1))
            await until(lambda: rig.committed() > 0)
            await rig.send(*bodies(1, 1, seed=99))
            await until(lambda: len(asked) == 4)  # in the batch, alone, and the one before again
    except* PermanentDependencyError:
        pass
    else:
        raise AssertionError("must raise")
    assert asked[0] == asked[3]
    assert rig.letters.kept == []


async def test_a_store_that_refuses_everything_stops_us_and_loses_nothing(
    metrics: Metrics,
) -> None:
    rig = Rig(metrics)
    refuse(rig, lambda _: True)
    try:
        async with rig.running():
            await rig.send(*bodies(1, 3))
            await asyncio.sleep(0.5)
    except* PermanentDependencyError:
        pass
    else:
        raise AssertionError("must raise")
    assert rig.committed() == 0
    assert rig.letters.kept == []


def refuse(rig: Rig, is_bad: Callable[[str], bool]) -> None:
    write: Callable[[Any], Awaitable[None]] = rig.store.write_requests

    async def refusing(rows: Any) -> None:
        if any(is_bad(row.request.trace_id) for row in rows):
            raise PermanentDependencyError("a value does not fit its column")
        await write(rows)

    rig.store.write_requests = refusing  # type: ignore[method-assign]


async def test_requests_without_anything_to_judge_are_stored_and_not_queued(
    metrics: Metrics,
) -> None:
    rig = Rig(metrics)
    rig.local = LocalScore(None, "no_claims")
    async with rig.running():
        await rig.send(*bodies(1, 2))
        await until(lambda: rig.committed() == 2)
    assert rig.tasks() == []
    assert rig.count("requests_ineligible_total", reason="no_claims") == 2
    assert rig.count("requests_eligible_total") == 0


async def test_texts_are_not_stored_when_they_may_not_be(metrics: Metrics) -> None:
    rig = Rig(metrics, store={"content": "none"})
    async with rig.running():
        await rig.send(*bodies(1, 1))
        await until(lambda: rig.committed() == 2)
    (row,) = rig.store.by_trace.values()
    assert row.request.question is None
    assert row.telemetry == b""
    assert all(document.text is None for document in row.request.documents)
    (task,) = rig.tasks()
    assert isinstance(task.request, RagRequest)
    assert task.request.question is not None


async def test_what_is_open_is_stored_on_stopping(metrics: Metrics) -> None:
    rig = Rig(metrics, assembler={"quiet_seconds": 600})
    async with rig.running():
        await rig.send(*bodies(1, 2))
        await until(lambda: rig.count("assembler_traces") == 2)
    assert len(rig.store.by_trace) == 2
    assert rig.committed() == 2
