"""Each task is judged once for a reader, outages are waited out, what is under way is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from collector.errors import TransientDependencyError
from collector.model import FAITHFULNESS, Claim, Judgement, JudgeTask, RagRequest
from collector.ports import JUDGE, Entry, Record
from collector.telemetry import Metrics
from collector.timing import SystemClock
from scorers.judge.worker import JudgeWorker
from tests.fakes.journal import MemoryJournal
from tests.fakes.store import MemoryStore


class ScriptedJudge:
    """Says 1.0 of everything; can be held back or made to break."""

    def __init__(self, scorer: str = FAITHFULNESS) -> None:
        self.scorer = scorer
        self.fingerprint = f"scripted-{scorer}"
        self.asked: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.open = asyncio.Event()
        self.open.set()
        self.breaks = False

    async def judge(self, request: RagRequest) -> Judgement:
        self.asked.append(request.trace_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.open.wait()
            await asyncio.sleep(0)
        finally:
            self.at_once -= 1
        if self.breaks:
            raise ZeroDivisionError
        return Judgement(
            trace_id=request.trace_id,
            scorer=self.scorer,
            fingerprint=self.fingerprint,
            status="judged",
            score=1.0,
            claims=[Claim(text="a claim", verdict="SUPPORTED", quote="a quote", document_rank=1)],
        )

    async def close(self) -> None:
        """Nothing to release."""


class Letters:
    def __init__(self) -> None:
        self.kept: list[str] = []

    def append(self, record: Record, reason: str) -> None:
        self.kept.append(reason)


class Rig:
    def __init__(self, metrics: Metrics, concurrency: int = 3) -> None:
        self.metrics = metrics
        self.concurrency = concurrency
        self.journal = MemoryJournal()
        self.store = MemoryStore()
        self.judge = ScriptedJudge()
        self.refusal = ScriptedJudge("refusal")
        self.letters = Letters()
        self.finished: list[str] = []
        self.carried: list[str] = []

    async def queue(self, *tasks: JudgeTask) -> None:
        await self.journal.append(
            [Entry(JUDGE, "judge_task", "", msgspec.msgpack.encode(task)) for task in tasks]
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        consumer = await self.journal.consumer(JUDGE, "g")
        worker = JudgeWorker(
            consumer=consumer,
            store=self.store,
            judge=self.judge,
            scorers={"refusal": self.refusal},
            concurrency=self.concurrency,
            max_wait_hours=48,
            carried=lambda task: self.carried.append(task.request.trace_id),
            finished=lambda task, _: self.finished.append(task.request.trace_id),
            dead_letters=self.letters,
            metrics=self.metrics,
            clock=SystemClock(),
        )
        stop = asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait_for(running, 5)
            await consumer.close()

    def committed(self) -> int:
        return self.journal.log.positions[(JUDGE, "g")]

    async def until_committed(self, offset: int) -> None:
        async def wait() -> None:
            while self.committed() < offset:  # noqa: ASYNC110 - state of another task
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), 10)


def task(
    number: int, version: int = 1, *, counted: bool = True, scorer: str = FAITHFULNESS
) -> JudgeTask:
    return JudgeTask(
        request=RagRequest(trace_id=f"t{number}"),
        version=version,
        probability=0.5,
        counted=counted,
        scorer=scorer,
    )


async def test_tasks_are_judged_at_most_so_many_at_once_and_then_committed(
    metrics: Metrics,
) -> None:
    rig = Rig(metrics)
    await rig.queue(*(task(n) for n in range(50)))
    async with rig.running():
        await rig.until_committed(51)
    assert rig.judge.most_at_once == 3
    assert len(rig.store.judgements) == 50
    assert sorted(rig.finished) == sorted(f"t{n}" for n in range(50))


async def test_a_doubled_task_is_judged_once(metrics: Metrics) -> None:
    rig = Rig(metrics)
    await rig.queue(task(1), task(1), task(1))
    async with rig.running():
        await rig.until_committed(4)
    assert rig.judge.asked == ["t1"]
    assert rig.finished == ["t1"]


async def test_scorers_judge_the_same_request_each_once(metrics: Metrics) -> None:
    rig = Rig(metrics)
    tasks = [task(1), task(1, scorer="refusal"), task(1, scorer="refusal")]
    await rig.queue(*tasks)
    async with rig.running():
        await rig.until_committed(4)
    await rig.queue(*tasks)  # read again after a crash
    async with rig.running():
        await rig.until_committed(7)
    assert (rig.judge.asked, rig.refusal.asked) == (["t1"], ["t1"])
    assert sorted(key[1] for key in rig.store.judgements) == ["faithfulness", "refusal"]


async def test_a_task_of_a_scorer_that_was_switched_off_holds_nothing_up(metrics: Metrics) -> None:
    rig = Rig(metrics)
    await rig.queue(task(1, scorer="answer_relevance"), task(2))
    async with rig.running():
        await rig.until_committed(3)
    assert rig.judge.asked == ["t2"]
    assert rig.letters.kept == []


async def test_a_scorer_that_breaks_fails_under_its_own_name(metrics: Metrics) -> None:
    rig = Rig(metrics)
    rig.refusal.breaks = True
    await rig.queue(task(1, scorer="refusal"))
    async with rig.running():
        await rig.until_committed(2)
    ((_, scorer, fingerprint),) = rig.store.judgements
    assert (scorer, fingerprint) == ("refusal", "scripted-refusal")


async def test_a_task_read_again_after_a_crash_is_not_judged_again(metrics: Metrics) -> None:
    rig = Rig(metrics)
    await rig.queue(task(1))
    async with rig.running():
        await rig.until_committed(2)
    await rig.queue(task(1), task(2))
    async with rig.running():
        await rig.until_committed(4)
    assert rig.judge.asked == ["t1", "t2"]
    assert rig.finished == ["t1", "t2"]


async def test_a_fuller_version_is_judged_again_and_counted_once(metrics: Metrics) -> None:
    rig = Rig(metrics)
    await rig.queue(task(1), task(1, version=2, counted=False))
    async with rig.running():
        await rig.until_committed(3)
    assert rig.judge.asked == ["t1", "t1"]
    assert rig.finished == ["t1"]
    (judgement,) = rig.store.judgements.values()
    assert judgement.request_version == 2


async def test_what_was_waiting_before_the_start_is_carried_over(metrics: Metrics) -> None:
    rig = Rig(metrics)
    await rig.queue(task(1))
    async with rig.running():
        await rig.until_committed(2)
        await rig.queue(task(2))
        await rig.until_committed(3)
    assert rig.carried == ["t1"]
    assert rig.finished == ["t1", "t2"]


async def test_nothing_leaves_the_journal_while_the_store_is_down(metrics: Metrics) -> None:
    rig = Rig(metrics)
    rig.store.fail_next(2, TransientDependencyError("down"))
    await rig.queue(task(1))
    async with rig.running():
        await rig.until_committed(2)
    assert rig.finished == ["t1"]
    assert rig.judge.asked == ["t1"]


async def test_what_is_under_way_at_a_stop_stays_in_the_journal(metrics: Metrics) -> None:
    rig = Rig(metrics)
    rig.judge.open.clear()
    await rig.queue(task(1), task(2))
    async with rig.running():
        await asyncio.sleep(0.3)
        assert rig.judge.at_once == 2
    assert rig.committed() <= 1
    assert rig.finished == []
    rig.judge.open.set()
    async with rig.running():
        await rig.until_committed(3)
    assert sorted(rig.finished) == ["t1", "t2"]


async def test_a_crash_of_the_judge_is_a_failure_with_its_cause_and_no_score(
    metrics: Metrics,
) -> None:
    rig = Rig(metrics)
    rig.judge.breaks = True
    await rig.queue(task(1))
    async with rig.running():
        await rig.until_committed(2)
    (judgement,) = rig.store.judgements.values()
    assert (judgement.status, judgement.reason, judgement.score) == ("failed", "internal", None)


async def test_an_unreadable_task_is_set_aside_and_the_rest_goes_on(metrics: Metrics) -> None:
    rig = Rig(metrics)
    await rig.journal.append([Entry(JUDGE, "judge_task", "", b"\xc1 not msgpack")])
    await rig.queue(task(1))
    async with rig.running():
        await rig.until_committed(3)
    assert rig.letters.kept == ["malformed"]
    assert rig.finished == ["t1"]
