"""A process that appends to a journal and says what was acknowledged, until it is killed.

    journal_writer.py PATH RUN

Prints `A producer number` once that append has returned, and `C offset` once a commit of the
other topic has. Producers wait for each acknowledgement, so at most one append of each is open.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from collector.config import JournalConfig
from collector.journal.sqlite import SqliteJournal
from collector.ports import JUDGE, TELEMETRY, Entry

PRODUCERS = 16


def say(line: str) -> None:
    """Write past all buffers: what the reader has seen, it has seen for good."""
    os.write(1, f"{line}\n".encode())


async def produce(journal: SqliteJournal, run: int, producer: int) -> None:
    number = 0
    while True:
        name = b"%d %d %d " % (run, producer, number)
        body = name + os.urandom(1 + (number * 977) % 20_000)
        task = Entry(JUDGE, "judge_task", "", name)
        await journal.append([Entry(TELEMETRY, "otlp_traces", "", body), task])
        say(f"A {producer} {number}")
        number += 1


async def consume(journal: SqliteJournal) -> None:
    consumer = await journal.consumer(JUDGE, "judge")
    while True:
        records = await consumer.poll(20, 10)
        if records:
            offset = records[-1].position.offset + 1
            await consumer.commit({0: offset})
            say(f"C {offset}")


async def main() -> None:
    path, run = Path(sys.argv[1]), int(sys.argv[2])
    journal = await SqliteJournal.open(path, JournalConfig(min_free_disk_bytes=0))
    await asyncio.gather(
        consume(journal), *(produce(journal, run, producer) for producer in range(PRODUCERS))
    )


if __name__ == "__main__":
    asyncio.run(main())
