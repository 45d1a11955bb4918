"""The journal under kill -9 and on a disk that ends: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
from pathlib import Path
from typing import NamedTuple

from collector.config import JournalConfig
from collector.journal.sqlite import SqliteJournal
from collector.ports import JUDGE, TELEMETRY, Record

ROOT = Path(__file__).parents[2]
KILLS = 8


class Said(NamedTuple):
    """What a killed writer had reported."""

    acknowledged: dict[int, int]  # producer: appends acknowledged
    committed: int


async def write_until_killed(path: Path, run: int, seconds: float) -> Said:
    """Start a writer, and kill it `seconds` after its first acknowledgement."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "tests/fault/journal_writer.py"),
        str(path),
        str(run),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    first = await process.stdout.readline()
    assert first, "the writer ended by itself"
    reading = asyncio.create_task(process.stdout.read())
    await asyncio.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    lines = (first + await reading).decode().splitlines()
    assert await process.wait() == -signal.SIGKILL

    acknowledged: dict[int, int] = {}
    committed = 0
    for kind, *numbers in (line.split() for line in lines):
        if kind == "A":
            acknowledged[int(numbers[0])] = int(numbers[1]) + 1
        else:
            committed = int(numbers[0])
    return Said(acknowledged, committed)


async def read_all(journal: SqliteJournal, topic: str, group: str) -> list[Record]:
    consumer = await journal.consumer(topic, group)
    records: list[Record] = []
    while found := await consumer.poll(500, 0):
        records += found
    await consumer.close()
    return records


async def test_what_was_acknowledged_survives_kill_9_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    moments = random.Random(20261129)
    runs: list[Said] = []
    for run in range(KILLS):
        runs.append(await write_until_killed(path, run, moments.uniform(0.05, 0.6)))

        journal = await SqliteJournal.open(path, JournalConfig(min_free_disk_bytes=0))
        telemetry = await read_all(journal, TELEMETRY, "check")
        tasks = await read_all(journal, JUDGE, "judge")
        await journal.close()

        numbers: dict[tuple[int, int], list[int]] = {}
        for record in telemetry:
            of_run, producer, number = map(int, record.body.split(b" ", 3)[:3])
            numbers.setdefault((of_run, producer), []).append(number)
        for of_run, said in enumerate(runs):
            for producer, count in said.acknowledged.items():
                found = numbers[of_run, producer]
                assert found == list(range(len(found))), "every number once, in order"
                assert len(found) in (count, count + 1), "at most the open append is unreported"
        assert all(task.position.offset >= runs[-1].committed for task in tasks)
        with contextlib.closing(sqlite3.connect(path)) as db:
            assert db.execute("pragma quick_check").fetchall() == [("ok",)]

    assert sum(sum(said.acknowledged.values()) for said in runs) > 100 * KILLS


async def test_both_entries_of_one_append_survive_a_kill_or_neither(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await write_until_killed(path, 0, 0.3)
    journal = await SqliteJournal.open(path, JournalConfig(min_free_disk_bytes=0))
    telemetry = await read_all(journal, TELEMETRY, "check")
    late_group = await read_all(journal, JUDGE, "late")
    await journal.close()

    names = [b" ".join(record.body.split(b" ", 3)[:3]) for record in telemetry]
    tasks = [record.body.rstrip() for record in late_group]
    # Tasks that were committed may be trimmed already; those still there have their other half.
    assert tasks == names[len(names) - len(tasks) :]


async def test_a_disk_that_ends_fails_appends_aloud_and_loses_no_acknowledged_one(
    tmp_path: Path,
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "tests/fault/journal_on_a_full_disk.py"),
        str(tmp_path / "journal.db"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    out, _ = await process.communicate()
    outcome = json.loads(out)

    assert outcome["acknowledged"] > 0
    assert outcome["failed"] > 0
    assert set(outcome["errors"]) <= {"TransientDependencyError", "Overloaded"}
    assert outcome["errors_after"] == []
    assert outcome["acknowledged_after"] == 20
    # A failed append may be there all the same; an acknowledged one always is.
    assert outcome["found"] >= outcome["acknowledged"] + outcome["acknowledged_after"]
