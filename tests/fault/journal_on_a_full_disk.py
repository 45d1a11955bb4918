"""A process whose disk ends in the middle: its files may not grow beyond a limit for a while.

    journal_on_a_full_disk.py PATH

Prints one JSON object: how many appends were acknowledged, what the others ended with, and how
many records are there after the limit is gone and the journal was opened again.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

from collector.config import JournalConfig
from collector.errors import GroundwatchError
from collector.journal.sqlite import SqliteJournal
from collector.ports import TELEMETRY, Entry

LIMIT_BYTES = 3 * 1024 * 1024


async def append(journal: SqliteJournal, count: int) -> tuple[int, list[str]]:
    """Append at once from many producers; return the acknowledged ones and the errors."""
    entry = Entry(TELEMETRY, "otlp_traces", "", bytes(50_000))
    outcomes = await asyncio.gather(
        *(journal.append([entry]) for _ in range(count)), return_exceptions=True
    )
    errors = [type(outcome).__name__ for outcome in outcomes if outcome is not None]
    unexpected = [o for o in outcomes if o is not None and not isinstance(o, GroundwatchError)]
    if unexpected:
        raise RuntimeError(repr(unexpected[0]))
    return count - len(errors), errors


async def main() -> None:
    path = Path(sys.argv[1])
    config = JournalConfig(min_free_disk_bytes=0)
    journal = await SqliteJournal.open(path, config)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
    acknowledged, errors = 0, []
    for _ in range(30):
        done, failed = await append(journal, 8)
        acknowledged += done
        errors += failed
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    after, errors_after = await append(journal, 20)
    await journal.close()

    journal = await SqliteJournal.open(path, config)
    consumer = await journal.consumer(TELEMETRY, "check")
    found = 0
    while records := await consumer.poll(1000, 0):
        found += len(records)
    await journal.close()
    outcome = {
        "acknowledged": acknowledged,
        "errors": sorted(set(errors)),
        "failed": len(errors),
        "acknowledged_after": after,
        "errors_after": errors_after,
        "found": found,
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    asyncio.run(main())
