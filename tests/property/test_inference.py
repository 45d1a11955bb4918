"""Whatever the order, the batches and the crashes: the same turns end in the same signals."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from collector.config import ImplicitConfig
from collector.errors import TransientDependencyError
from collector.inference import KINDS, SignalInference, conversation_entries, turn_of
from collector.model import StoredRequest
from collector.ports import CONVERSATIONS
from collector.telemetry import Metrics
from collector.timing import Patience
from scorers.implicit.detect import infer
from tests.fakes.conversations import ConversationStore
from tests.fakes.journal import MemoryJournal, MemoryLog
from tests.fakes.store import AT, stored

CONFIG = ImplicitConfig(quiet_minutes=30, long_wait_seconds=20)
QUESTIONS = (
    "How do I cancel my subscription?",
    "I want to cancel the subscription, how do I do it?",
    "I meant the yearly subscription.",
    "What does shipping to Norway cost?",
    "And how long does it take?",
)
Seen = tuple[str, str, float | None, str | None]
ANSWERS = ("Write to us.", "I do not know.", "It takes three days.")


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self, now: datetime) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


class Step(NamedTuple):
    """What arrives while one process lives, and whether it dies of a write that fails."""

    rows: list[StoredRequest]
    dies: bool
    after_writing: bool


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Turns of two conversations, some of them twice, in any order and any batches."""
    rows = [
        stored(
            f"{number:032x}",
            started_at=AT + timedelta(minutes=draw(st.integers(0, 80))),
            conversation_id=draw(st.sampled_from(["talk-a", "talk-b"])),
            question=draw(st.sampled_from(QUESTIONS)),
            answer=draw(st.sampled_from(ANSWERS)),
            latency_ms=draw(st.sampled_from([900.0, 25_000.0])),
        )
        for number in range(draw(st.integers(1, 8)))
    ]
    order = draw(st.permutations(rows + draw(st.lists(st.sampled_from(rows), max_size=3))))
    cuts = sorted(draw(st.sets(st.integers(1, len(order)), max_size=3)) | {len(order)})
    return [
        Step(order[start:end], draw(st.booleans()), draw(st.booleans()))
        for start, end in pairwise([0, *cuts])
    ]


async def lived(steps: list[Step], times: list[datetime]) -> ConversationStore:
    """Let turns arrive step by step, each in a process of its own, and work until all is done."""
    store, log = ConversationStore(), MemoryLog()
    for step, now in zip(steps, times, strict=True):
        await store.write_requests(step.rows)
        journal = MemoryJournal(log)
        await journal.consumer(CONVERSATIONS, "g")
        await journal.append(conversation_entries(step.rows))
        if step.dies:
            store.dies = TransientDependencyError("down")
            store.dies_after_writing = step.after_writing
            with suppress(TransientDependencyError):
                await worked(store, log, now)
            store.dies = None
        await worked(store, log, now)
    return store


async def worked(store: ConversationStore, log: MemoryLog, now: datetime) -> None:
    """Work, as a process of its own, until there is nothing more to do."""
    stop = asyncio.Event()
    stop.set()  # so that the first failure is the end
    patiently = Patience(stop, lambda error: None)
    inference = SignalInference(
        consumer=await MemoryJournal(log).consumer(CONVERSATIONS, "g"),
        store=store,
        infer=partial(infer, config=CONFIG),
        config=CONFIG,
        metrics=Metrics(CollectorRegistry()),
        clock=SetClock(now),
    )
    while log.records.get(CONVERSATIONS):
        await inference.follow(patiently)
    while inference.is_behind:
        await inference.sweep(patiently)
    await inference.sweep(patiently)


async def at_once(steps: list[Step], now: datetime) -> set[Seen]:
    """Return what all the turns together tell, looked at once and by nobody else."""
    store = ConversationStore()
    await store.write_requests([row for step in steps for row in step.rows])
    found: set[Seen] = set()
    for talk in ("talk-a", "talk-b"):
        rows = await store.rows("turns", {"conversations": [talk], "turns": 50, "kinds": KINDS})
        told = infer([turn_of(row) for row in rows], now, CONFIG)
        found |= {(s.trace_id, s.kind, s.confidence, s.reason) for s in told}
    return found


@settings(max_examples=100, deadline=None)
@given(steps=histories(), waits=st.lists(st.integers(0, 40), min_size=4, max_size=4))
def test_the_same_turns_end_in_the_same_signals(steps: list[Step], waits: list[int]) -> None:
    minutes = [80 + sum(waits[: number + 1]) for number in range(len(steps))]
    times = [AT + timedelta(minutes=count) for count in minutes]
    store = asyncio.run(lived(steps, times))
    assert store.inferred() == asyncio.run(at_once(steps, times[-1]))


@settings(max_examples=30, deadline=None)
@given(steps=histories())
def test_looking_again_writes_nothing(steps: list[Step]) -> None:
    now = AT + timedelta(minutes=200)
    store = asyncio.run(lived(steps, [now] * len(steps)))
    writes = store.writes
    journal_log = MemoryLog()

    async def again() -> None:
        journal = MemoryJournal(journal_log)
        await journal.consumer(CONVERSATIONS, "g")
        await journal.append(conversation_entries(row for step in steps for row in step.rows))
        await worked(store, journal_log, now)

    asyncio.run(again())
    assert store.writes == writes
