"""What the embedded journal promises beyond the port: its file, its bounds, its one owner."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import stat
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from collector.config import JournalConfig
from collector.errors import Overloaded, PermanentDependencyError, TransientDependencyError
from collector.journal.sqlite import SqliteJournal
from collector.journal.sqlite_file import JournalFile
from collector.ports import JUDGE, TELEMETRY, Consumer, Entry
from collector.telemetry import Metrics

MIB = 1024 * 1024
ROOT = Path(__file__).parents[2]
Open = Callable[..., Awaitable[SqliteJournal]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "journal.db"


@pytest.fixture
async def open_journal(path: Path) -> AsyncIterator[Open]:
    opened: list[SqliteJournal] = []

    async def open_it(
        max_bytes: int = 256 * MIB, min_free_disk_bytes: int = 0, metrics: Metrics | None = None
    ) -> SqliteJournal:
        config = JournalConfig(max_bytes=max_bytes, min_free_disk_bytes=min_free_disk_bytes)
        opened.append(await SqliteJournal.open(path, config, metrics))
        return opened[-1]

    yield open_it
    for journal in opened:
        await journal.close()


def entry(size: int) -> Entry:
    return Entry(TELEMETRY, "otlp_traces", "", os.urandom(size))


async def drain(consumer: Consumer) -> int:
    """Read and commit everything; return how many records there were."""
    count = 0
    while records := await consumer.poll(100, 0):
        count += len(records)
        await consumer.commit({0: records[-1].position.offset + 1})
    return count


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the journal does in its own time."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def size_of(path: Path) -> int:
    return path.stat().st_size


def damage(path: Path) -> None:
    """Overwrite the first page, where the schema is, behind the file header."""
    content = bytearray(path.read_bytes())
    content[200:8192] = os.urandom(8192 - 200)
    path.write_bytes(content)


# --- One owner, one kind of file ---


async def test_a_second_process_on_the_same_journal_is_told_what_to_do(
    path: Path, open_journal: Open
) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "tests/fault/journal_writer.py"),
        str(path),
        "0",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert owner.stdout is not None
    await owner.stdout.readline()

    with pytest.raises(PermanentDependencyError) as refused:
        await open_journal()

    owner.send_signal(signal.SIGKILL)
    await owner.communicate()
    assert str(path) in str(refused.value)
    assert "data_dir" in str(refused.value)
    await open_journal()


async def test_a_journal_can_be_opened_again_once_it_is_closed(open_journal: Open) -> None:
    journal = await open_journal()
    with pytest.raises(PermanentDependencyError):
        await open_journal()
    await journal.close()

    await open_journal()


@pytest.fixture
def no_database(path: Path) -> Path:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database " * 1000)
    return path


@pytest.fixture
def foreign_database(path: Path) -> bytes:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("create table precious(x)")
        db.commit()
    return path.read_bytes()


async def test_a_file_that_is_no_database_is_named_with_the_cure(
    no_database: Path, open_journal: Open
) -> None:

    with pytest.raises(PermanentDependencyError) as refused:
        await open_journal()

    assert str(no_database) in str(refused.value)
    assert "move it" in str(refused.value)


async def test_a_damaged_journal_is_named_with_the_cure(path: Path, open_journal: Open) -> None:
    journal = await open_journal()
    await journal.append([entry(20_000) for _ in range(20)])
    await journal.close()
    damage(path)

    with pytest.raises(PermanentDependencyError) as refused:
        await open_journal()

    assert str(path) in str(refused.value)
    assert "damaged" in str(refused.value)


async def test_the_database_of_another_program_is_left_alone(
    path: Path, foreign_database: bytes, open_journal: Open
) -> None:
    with pytest.raises(PermanentDependencyError, match="not a journal"):
        await open_journal()

    content = await asyncio.to_thread(path.read_bytes)
    assert content == foreign_database


async def test_a_folder_that_cannot_be_written_is_named_with_the_cure(
    path: Path, open_journal: Open
) -> None:
    path.parent.write_text("a file where the folder should be")

    with pytest.raises(PermanentDependencyError) as refused:
        await open_journal()

    assert str(path.parent) in str(refused.value)
    assert "data_dir" in str(refused.value)


@pytest.mark.parametrize("older", [False, True])
async def test_its_files_are_their_owners_alone(
    path: Path, open_journal: Open, *, older: bool
) -> None:
    if older:
        path.parent.mkdir()
        path.touch(0o644)  # noqa: ASYNC240 - nothing else runs yet
    journal = await open_journal()
    await journal.append([entry(100)])

    files = list(path.parent.glob(f"{path.name}*"))
    assert len(files) == 4  # with the log, its index and the lock
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_the_file_has_the_settings_that_let_it_shrink(path: Path, open_journal: Open) -> None:
    await open_journal()

    with contextlib.closing(sqlite3.connect(path)) as db:
        (auto_vacuum,) = db.execute("pragma auto_vacuum").fetchone()
        (page_size,) = db.execute("pragma page_size").fetchone()
        (mode,) = db.execute("pragma journal_mode").fetchone()

    assert (auto_vacuum, page_size, mode) == (2, 8192, "wal")


# --- Bounds ---


async def test_low_free_disk_refuses_before_anything_is_written(open_journal: Open) -> None:
    journal = await open_journal(min_free_disk_bytes=1 << 60)

    with pytest.raises(Overloaded) as refused:
        await journal.append([entry(100)])

    assert refused.value.reason == "disk"
    consumer = await journal.consumer(TELEMETRY, "process")
    assert await consumer.poll(10, 0) == []


async def test_the_file_stays_within_its_bound_however_much_goes_through(
    path: Path, open_journal: Open
) -> None:
    journal = await open_journal(max_bytes=16 * MIB)
    consumer = await journal.consumer(TELEMETRY, "process")
    through = 0
    while through < 100:
        try:
            await journal.append([entry(MIB)])
            through += 1
        except Overloaded:
            await drain(consumer)
            await asyncio.sleep(0.01)

    assert size_of(path) <= (16 + 8) * MIB


async def test_the_file_shrinks_after_a_burst(path: Path, open_journal: Open) -> None:
    journal = await open_journal()
    consumer = await journal.consumer(TELEMETRY, "process")
    for _ in range(100):
        await journal.append([entry(MIB)])
    assert size_of(path) > 80 * MIB

    assert await drain(consumer) == 100

    await until(lambda: size_of(path) < 50 * MIB)


async def test_a_reader_that_holds_the_log_makes_senders_wait_until_it_lets_go(
    path: Path, open_journal: Open
) -> None:
    journal = await open_journal()
    await journal.append([entry(100)])
    refused = None
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("begin")
        other.execute("select count(*) from entry").fetchall()
        for _ in range(40):
            try:
                await journal.append([entry(4 * MIB)])
                await asyncio.sleep(0.01)
            except Overloaded as err:
                refused = err
                break
    assert refused is not None
    assert refused.reason == "journal"
    assert size_of(path.with_name("journal.db-wal")) < 90 * MIB

    async with asyncio.timeout(10):
        while True:
            try:
                await journal.append([entry(100)])
                break
            except Overloaded:
                await asyncio.sleep(0.05)


# --- Commits ---


async def test_appends_that_come_together_share_commits(
    open_journal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[int] = []
    write = JournalFile.append

    def counting(file: JournalFile, rows: list[object]) -> int:
        commits.append(len(rows))
        return write(file, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(JournalFile, "append", counting)
    journal = await open_journal()

    await asyncio.gather(*(journal.append([entry(1000)]) for _ in range(200)))

    assert sum(commits) == 200
    assert len(commits) < 40


async def test_a_failed_commit_fails_all_that_shared_it_and_the_next_one_works(
    open_journal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await open_journal()
    broken = [True]
    write = JournalFile.append

    def failing(file: JournalFile, rows: list[object]) -> int:
        if broken[0]:
            raise TransientDependencyError("disk I/O error")
        return write(file, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(JournalFile, "append", failing)
    outcomes = await asyncio.gather(
        *(journal.append([entry(1000)]) for _ in range(50)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [TransientDependencyError] * 50

    broken.clear()
    broken.append(False)
    await journal.append([entry(1000)])
    consumer = await journal.consumer(TELEMETRY, "process")
    assert await drain(consumer) == 1


async def test_a_text_that_cannot_be_stored_fails_its_append_and_not_the_journal(
    open_journal: Open,
) -> None:
    journal = await open_journal()

    with pytest.raises(TransientDependencyError):
        await journal.append([Entry(TELEMETRY, "otlp_traces", "\ud800", b"x")])

    await journal.append([entry(10)])
    assert await drain(await journal.consumer(TELEMETRY, "process")) == 1


async def test_an_append_that_was_given_up_does_not_disturb_the_others(open_journal: Open) -> None:
    journal = await open_journal()
    given_up = [asyncio.create_task(journal.append([entry(1000)])) for _ in range(5)]
    kept = [asyncio.create_task(journal.append([entry(1000)])) for _ in range(5)]
    await asyncio.sleep(0)
    for task in given_up:
        task.cancel()

    await asyncio.gather(*kept)

    assert 5 <= await drain(await journal.consumer(TELEMETRY, "process")) <= 10


async def test_size_and_lag_are_on_the_gauges(open_journal: Open, metrics: Metrics) -> None:
    journal = await open_journal(max_bytes=64 * MIB, metrics=metrics)
    value = metrics.registry.get_sample_value
    assert value("groundwatch_journal_bytes_capacity") == 64 * MIB
    await journal.append([entry(MIB) for _ in range(3)])
    consumer = await journal.consumer(TELEMETRY, "process")
    await consumer.lag()

    assert value("groundwatch_journal_lag_records", {"topic": TELEMETRY}) == 3
    assert 3 * MIB < (value("groundwatch_journal_bytes") or 0) < 4 * MIB

    assert await drain(consumer) == 3
    await consumer.lag()
    assert value("groundwatch_journal_lag_records", {"topic": TELEMETRY}) == 0
    await until(lambda: (value("groundwatch_journal_bytes") or 0) < MIB)


async def test_a_journal_full_for_senders_still_takes_our_own_judge_tasks(tmp_path: Path) -> None:
    """Telemetry is released only once its tasks are in: one common bound would never drain."""
    config = JournalConfig(max_bytes=16 * 1024 * 1024, min_free_disk_bytes=0)
    journal = await SqliteJournal.open(tmp_path / "journal.sqlite", config)
    try:
        with contextlib.suppress(Overloaded):
            for _ in range(15):
                await journal.append([Entry(TELEMETRY, "otlp_traces", "", bytes(1024 * 1024))])
        with pytest.raises(Overloaded):
            await journal.append([Entry(TELEMETRY, "otlp_traces", "", bytes(1024 * 1024))])
        await journal.append([Entry(JUDGE, "judge_task", "t", bytes(1024 * 1024))])
        judge = await journal.consumer(JUDGE, "g")
        (record,) = await judge.poll(10, 1)
        assert record.kind == "judge_task"
    finally:
        await journal.close()
