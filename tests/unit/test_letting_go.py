"""What a process does before its partition goes to another: finish, commit, forget."""

from __future__ import annotations

import asyncio

import pytest

from collector import otlp
from collector.acks import Acks
from collector.errors import Postponed
from collector.model import Judgement, RagRequest, Span
from collector.ports import JUDGE, TELEMETRY, Position
from tests.bench.load import bodies
from tests.fakes.pipeline import CountingJudge, Pipeline
from tests.fakes.store import MemoryStore

PATIENT = {"assembler": {"quiet_seconds": 0.2, "rootless_seconds": 60}}


class HeldJudge(CountingJudge):
    """Answers once it is let; until then some requests are put off."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()
        self.postpones = False

    async def judge(self, request: RagRequest) -> Judgement:
        if self.postpones:
            raise Postponed("timeout", 3600)
        await self.let.wait()
        return await super().judge(request)


def one_trace() -> tuple[list[Span], list[Span]]:
    (body,) = bodies(1, 1)
    spans = otlp.decode_traces(body, "").spans
    root = [span for span in spans if span.parent_span_id is None]
    return [span for span in spans if span.parent_span_id is not None], root


async def take_away(pipeline: Pipeline, topic: str) -> None:
    await pipeline.journal.members[topic, "g"][0].take_away()


@pytest.mark.parametrize("content", ["full", "none"])
async def test_a_half_read_trace_is_whole_once_its_partition_came_back(content: str) -> None:
    store = MemoryStore()
    pipeline = Pipeline(store, PATIENT | {"store": {"content": content}})
    early, late = one_trace()
    async with pipeline.running():
        await pipeline.send(early)
        await pipeline.until(lambda: pipeline.count("assembler_traces") == 1)

        await take_away(pipeline, TELEMETRY)

        # What is stored needs not be read again; what may not be stored is left in the journal.
        assert (pipeline.waiting(TELEMETRY) == 0) == (content == "full")
        await pipeline.send(late)
        await pipeline.until(lambda: len(store.judgements) == 1)
        await pipeline.until_idle()
    (row,) = store.by_trace.values()
    assert len(row.span_ids) == len(early) + len(late)
    (judgement,) = store.judgements.values()
    assert judgement.request_version == row.version


async def test_a_judgement_under_way_is_waited_for_and_stored_before_its_task_goes() -> None:
    store = MemoryStore()
    pipeline = Pipeline(store, PATIENT)
    pipeline.judge = judge = HeldJudge()
    early, late = one_trace()
    async with pipeline.running():
        await pipeline.send(early + late)
        await pipeline.until(lambda: pipeline.count("judge_in_flight") == 1)

        going = asyncio.create_task(take_away(pipeline, JUDGE))
        await asyncio.sleep(0.3)
        assert not going.done()
        judge.let.set()
        await asyncio.wait_for(going, 5)

        assert len(store.judgements) == 1
        assert pipeline.waiting(JUDGE) == 0
    assert len(judge.asked) == 1


async def test_a_task_that_was_put_off_is_judged_when_it_comes_back() -> None:
    store = MemoryStore()
    pipeline = Pipeline(store, PATIENT)
    pipeline.judge = judge = HeldJudge()
    judge.postpones = True
    early, late = one_trace()
    async with pipeline.running():
        await pipeline.send(early + late)
        await pipeline.until(lambda: pipeline.count("judge_postponed_total") == 1)

        await take_away(pipeline, JUDGE)

        assert pipeline.waiting(JUDGE) == 1
        judge.postpones = False
        judge.let.set()
        await pipeline.until_idle()
    assert len(judge.asked) == len(store.judgements) == 1


def test_positions_that_are_forgotten_can_be_read_again_and_do_not_hold_others_up() -> None:
    acks = Acks()
    for position in (Position(0, 5), Position(1, 5), Position(1, 6)):
        acks.read(position)
    acks.release([Position(1, 5)])

    acks.forget({0})

    assert acks.committable() == {1: 6}
    assert len(acks) == 1
    acks.read(Position(0, 3))
    acks.release([Position(0, 3)])
    assert acks.committable() == {0: 4, 1: 6}
