"""What cannot be judged now waits in the journal, and neither fails nor blocks for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from collector.errors import PermanentDependencyError, Postponed, TransientDependencyError
from collector.model import Judgement, RagRequest
from collector.ports import JUDGE
from collector.telemetry import Metrics
from tests.fakes.clocks import StoppedClock
from tests.fakes.journal import MemoryJournal
from tests.unit.test_worker import Rig, ScriptedJudge, task


class MoodyJudge(ScriptedJudge):
    """Puts off what is in `refuses`, each with its own error."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: dict[str, Exception] = {}

    async def judge(self, request: RagRequest) -> Judgement:
        if error := self.refuses.get(request.trace_id):
            self.asked.append(request.trace_id)
            raise error
        return await super().judge(request)


class WaitingRig(Rig):
    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.moody = MoodyJudge()
        self.judge = self.moody


async def until(condition: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not condition():  # noqa: ASYNC110 - state of another task
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), 10)


def reasons(rig: Rig) -> dict[str, str | None]:
    return {row.trace_id: row.reason for row in rig.store.judgements.values()}


async def test_what_cannot_be_judged_now_holds_up_nothing_else(metrics: Metrics) -> None:
    rig = WaitingRig(metrics)
    rig.moody.refuses["t0"] = Postponed("budget_exhausted", 3600)
    await rig.queue(*(task(n) for n in range(40)))
    async with rig.running():
        await until(lambda: len(rig.store.judgements) == 39)
        assert rig.moody.asked.count("t0") == 1
    assert rig.committed() == 1
    assert reasons(rig) == {f"t{n}": None for n in range(1, 40)}


async def test_it_is_judged_when_its_time_comes_and_after_a_restart(metrics: Metrics) -> None:
    rig = WaitingRig(metrics)
    rig.moody.refuses["t0"] = Postponed("server_error", 0.05)
    await rig.queue(task(0))
    async with rig.running():
        await until(lambda: rig.moody.asked.count("t0") >= 3)
        assert rig.store.judgements == {}
    rig.moody.refuses["t0"] = Postponed("server_error", 3600)
    async with rig.running():
        await until(lambda: rig.moody.asked.count("t0") >= 4)
    rig.moody.refuses.clear()
    async with rig.running():
        await rig.until_committed(2)
    assert reasons(rig) == {"t0": None}
    assert rig.finished == ["t0"]


@pytest.mark.parametrize("cause", ["budget_exhausted", "connection", "auth"])
async def test_after_the_longest_wait_it_fails_with_its_cause_and_never_as_a_number(
    metrics: Metrics, cause: str
) -> None:
    rig = WaitingRig(metrics)
    rig.journal = MemoryJournal(clock=StoppedClock(datetime.now(UTC) - timedelta(hours=49)))
    rig.moody.refuses["t0"] = Postponed(cause, 3600)
    await rig.queue(task(0))
    rig.journal.clock = StoppedClock(datetime.now(UTC) - timedelta(hours=47))
    rig.moody.refuses["t1"] = Postponed(cause, 3600)
    await rig.queue(task(1))
    async with rig.running():
        await until(lambda: rig.committed() == 2)
    (row,) = rig.store.judgements.values()
    assert (row.trace_id, row.status, row.score, row.reason) == ("t0", "failed", None, cause)


async def test_a_task_that_fails_while_others_are_judged_is_at_fault_itself(
    metrics: Metrics,
) -> None:
    rig = WaitingRig(metrics)
    rig.moody.refuses["t0"] = Postponed("server_error", 0.01, tried=True)
    await rig.queue(task(0))
    async with rig.running():
        await until(lambda: rig.moody.asked.count("t0") > 5)
        assert rig.store.judgements == {}  # nobody was judged, so it may be the endpoint
        for number in range(1, 30):
            await rig.queue(task(number))
            await asyncio.sleep(0.03)
        await rig.until_committed(31)
    assert reasons(rig)["t0"] == "server_error"
    assert all(reasons(rig)[f"t{n}"] is None for n in range(1, 30))


async def test_an_outage_that_hits_all_fails_none_however_often_each_is_tried(
    metrics: Metrics,
) -> None:
    rig = WaitingRig(metrics)
    outage = Postponed("connection", 0.01, tried=True)
    rig.moody.refuses = {f"t{n}": outage for n in range(20)}
    await rig.queue(*(task(n) for n in range(20)))
    async with rig.running():
        await until(lambda: len(rig.moody.asked) > 200)
        assert rig.store.judgements == {}
        rig.moody.refuses.clear()
        await rig.until_committed(21)
    assert set(reasons(rig).values()) == {None}


@pytest.mark.parametrize(
    "error",
    [TransientDependencyError("the store is away"), PermanentDependencyError("it may only read")],
)
async def test_a_store_that_cannot_be_asked_puts_off_and_fails_nothing(
    metrics: Metrics, error: Exception
) -> None:
    rig = WaitingRig(metrics)
    rig.moody.refuses["t0"] = error
    await rig.queue(task(0), task(1))
    async with rig.running():
        await until(lambda: len(rig.store.judgements) == 1)
        rig.moody.refuses.clear()
        await rig.until_committed(3)
    assert set(reasons(rig).values()) == {None}


async def test_memory_stays_bounded_while_everything_waits(metrics: Metrics) -> None:
    rig = WaitingRig(metrics)
    rig.moody.refuses = {f"t{n}": Postponed("auth", 3600) for n in range(1000)}
    await rig.queue(*(task(n) for n in range(1000)))
    async with rig.running():
        await until(lambda: len(rig.moody.asked) >= 200)
        await asyncio.sleep(0.5)
        read = rig.journal.members[(JUDGE, "g")][0].position
    assert len(rig.moody.asked) == 200
    assert read == 201
