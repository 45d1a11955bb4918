"""Processor, signal writer and judge worker on one journal and one store, as an agent runs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from collector.accounting import Accounting
from collector.building import LocalScore
from collector.config import Config
from collector.model import Claim, Judgement, RagRequest, Signal, Span, Verdict
from collector.pipeline import Processor
from collector.ports import JUDGE, SIGNALS, TELEMETRY, Entry, Record, Store
from collector.quality import QualityCounters
from collector.signal_writer import SignalWriter
from collector.signals import signal_entries
from collector.telemetry import Metrics
from collector.timing import SystemClock
from collector.trace_files import bodies
from collector.trace_files.encode import body_of_spans
from scorers.faithfulness import unscored_reason
from scorers.judge.worker import JudgeWorker
from tests.fakes.journal import MemoryJournal, MemoryLog

QUICK = {"assembler": {"quiet_seconds": 0.2, "rootless_seconds": 1.0}}


class CountingJudge:
    """Scores by a rule of the test and remembers what it was asked."""

    fingerprint = "counting-1"

    def __init__(self) -> None:
        self.asked: list[RagRequest] = []
        self.rule: Callable[[RagRequest], float] = lambda _: 1.0

    async def judge(self, request: RagRequest) -> Judgement:
        self.asked.append(request)
        score = self.rule(request)
        verdict: Verdict = "SUPPORTED" if score > 0.5 else "NOT_FOUND"
        return Judgement(
            trace_id=request.trace_id,
            scorer="faithfulness",
            fingerprint=self.fingerprint,
            status="judged",
            score=score,
            claims=[Claim(text="a claim", verdict=verdict)],
        )

    async def close(self) -> None:
        """Nothing to release."""


class Letters:
    """Dead letters in memory."""

    def __init__(self) -> None:
        self.kept: list[tuple[Record, str]] = []

    def append(self, record: Record, reason: str) -> None:
        self.kept.append((record, reason))


class Pipeline:
    """An agent without receivers. What is in `log` and `store` survives a restart."""

    def __init__(self, store: Store, config: dict[str, Any] | None = None) -> None:
        self.store = store
        self.config = Config.model_validate({**QUICK, **(config or {})})
        self.log = MemoryLog()
        self.judge = CountingJudge()
        self.letters = Letters()
        self.metrics = Metrics(CollectorRegistry())
        self.journal = MemoryJournal(self.log)
        self._quality = QualityCounters({})

    async def open_journal(self) -> Any:
        """Return the journal to run on."""
        return MemoryJournal(self.log)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run until the block ends, then stop in order: signals, processor, worker."""
        self.metrics = Metrics(CollectorRegistry())
        self.journal = await self.open_journal()
        accounting = Accounting(self.metrics, self.judge.fingerprint)
        self._quality = accounting.quality
        clock = SystemClock()
        processor = Processor(
            consumer=await self.journal.consumer(TELEMETRY, "g"),
            journal=self.journal,
            store=self.store,
            score=lambda request: LocalScore(0.5, unscored_reason(request)),
            foreseen=lambda decision, _: decision,
            dead_letters=self.letters,
            accounting=accounting,
            metrics=self.metrics,
            config=self.config,
            clock=clock,
        )
        worker = JudgeWorker(
            consumer=await self.journal.consumer(JUDGE, "g"),
            store=self.store,
            judge=self.judge,
            concurrency=2,
            max_wait_hours=48,
            carried=accounting.carried,
            finished=accounting.finished,
            dead_letters=self.letters,
            metrics=self.metrics,
            clock=clock,
        )
        signals = SignalWriter(
            consumer=await self.journal.consumer(SIGNALS, "g"),
            journal=self.journal,
            store=self.store,
            dead_letters=self.letters,
            metrics=self.metrics,
            config=self.config,
            clock=clock,
        )
        parts = (signals.run, processor.run, worker.run)
        stops = [asyncio.Event() for _ in parts]
        tasks = [asyncio.create_task(run(stop)) for run, stop in zip(parts, stops, strict=True)]
        try:
            yield
        finally:
            for stop, task in zip(stops, tasks, strict=True):
                stop.set()
                await asyncio.wait_for(task, 60)
            await self.journal.close()

    async def send(self, *batches: Iterable[Span]) -> None:
        """Append each batch of spans as one OTLP body."""
        bodies = [body_of_spans(list(batch)) for batch in batches]
        await self.journal.append([Entry(TELEMETRY, "otlp_traces", "", body) for body in bodies])

    async def send_file(self, path: Path) -> None:
        """Append what a trace or log file holds."""
        await self.journal.append(
            [
                Entry(TELEMETRY, "otlp_traces" if kind == "traces" else "otlp_logs", "", body)
                for kind, body in bodies(path)
            ]
        )

    async def tell(self, *signals: Signal) -> None:
        """Append signals, each as a body of its own."""
        for signal in signals:
            await self.journal.append(signal_entries([signal]))

    def waiting(self, topic: str) -> int:
        """Return how many records of a topic are not committed."""
        committed = self.log.positions.get((topic, "g"), 0)
        return len(self.log.from_offset(topic, committed))

    async def until_idle(self, seconds: float = 60) -> None:
        """Wait until all that was sent is stored, judged and committed."""
        topics = (TELEMETRY, SIGNALS, JUDGE)
        await self.until(lambda: not any(self.waiting(topic) for topic in topics), seconds)

    async def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until a condition of the test holds."""

        async def wait() -> None:
            while not condition():  # noqa: ASYNC110 - looks at state of other tasks
                await asyncio.sleep(0.02)

        await asyncio.wait_for(wait(), seconds)

    def count(self, name: str, **labels: str) -> float:
        """Return the sum of one of our own metrics over the labels not given, as if scraped."""
        for _ in range(2):  # the first shows new series as 0
            self._quality.scrape()
        return sum(
            sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == f"groundwatch_{name}" and labels.items() <= sample.labels.items()
        )
