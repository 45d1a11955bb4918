"""Any sequence of appends, reads, commits and restarts, compared with a model in plain lists."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.config import JournalConfig
from collector.journal.sqlite import SqliteJournal
from collector.ports import SIGNALS, TELEMETRY, Consumer, Entry, Journal
from tests.fakes.journal import MemoryJournal, MemoryLog

TOPICS = (TELEMETRY, SIGNALS)
GROUPS = ("process", "archive")

topics = st.sampled_from(TOPICS)
members = st.tuples(topics, st.sampled_from(GROUPS))
appends = st.tuples(
    st.just("append"), st.lists(st.tuples(topics, st.binary(max_size=9_000)), max_size=5)
)
polls = st.tuples(st.just("poll"), members, st.integers(1, 6))
commits = st.tuples(st.just("commit"), members, st.floats(0, 1))
restarts = st.tuples(st.just("restart"))
steps = st.lists(st.one_of(appends, polls, commits, restarts), max_size=30)


@dataclass
class Model:
    """What must be true: all bodies ever appended, and how far each group is."""

    bodies: dict[str, list[bytes]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})
    committed: dict[tuple[str, str], int] = field(
        default_factory=lambda: {(topic, group): 0 for topic in TOPICS for group in GROUPS}
    )
    read: dict[tuple[str, str], int] = field(
        default_factory=lambda: {(topic, group): 0 for topic in TOPICS for group in GROUPS}
    )


async def play(open_journal: Callable[[], Awaitable[Journal]], moves: list[Any]) -> None:
    """Make the moves, and check after each that the journal did what the model says."""
    model = Model()
    journal = await open_journal()
    consumers = await join_all(journal)
    # The record behind each body of the model, as far as one was read.
    offsets: dict[tuple[str, int], int] = {}
    for move, *arguments in moves:
        if move == "append":
            await journal.append(
                [Entry(topic, "signals", "", body) for topic, body in arguments[0]]
            )
            for topic, body in arguments[0]:
                model.bodies[topic].append(body)
        elif move == "poll":
            member, count = arguments
            topic, start = member[0], model.read[member]
            records = await consumers[member].poll(count, 0)
            assert [r.body for r in records] == model.bodies[topic][start : start + count]
            for index, record in enumerate(records, start):
                assert offsets.setdefault((topic, index), record.position.offset) == (
                    record.position.offset
                ), "an offset is for life"
            model.read[member] += len(records)
        elif move == "commit":
            member, share = arguments
            index = round(share * model.read[member]) - 1
            if index >= 0:
                await consumers[member].commit({0: offsets[member[0], index] + 1})
                model.committed[member] = max(model.committed[member], index + 1)
        else:
            await journal.close()
            journal = await open_journal()
            consumers = await join_all(journal)
            model.read = dict(model.committed)
        for (topic, group), consumer in consumers.items():
            behind = len(model.bodies[topic]) - model.committed[topic, group]
            assert (await consumer.lag())[0] == behind
    await journal.close()


async def join_all(journal: Journal) -> dict[tuple[str, str], Consumer]:
    return {
        (topic, group): await journal.consumer(topic, group) for topic in TOPICS for group in GROUPS
    }


@settings(max_examples=25, deadline=None)
@given(moves=steps)
def test_the_sqlite_journal_does_what_plain_lists_would(moves: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        config = JournalConfig(min_free_disk_bytes=0)
        asyncio.run(play(lambda: SqliteJournal.open(path, config), moves))


@settings(max_examples=100, deadline=None)
@given(moves=steps)
def test_the_memory_journal_of_the_tests_does_what_plain_lists_would(moves: list[Any]) -> None:
    log = MemoryLog()

    async def reopen() -> Journal:
        return MemoryJournal(log)

    asyncio.run(play(reopen, moves))
