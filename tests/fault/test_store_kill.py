"""The embedded store under kill -9: acknowledged rows are there, and a replay doubles none."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore
from tests.fault import store_writer
from tests.fault.store_writer import AT, ROWS, trace_ids

ROOT = Path(__file__).parents[2]
KILLS = 6


async def write_until_killed(folder: Path, first: int, seconds: float) -> int:
    """Let a writer start at batch `first`, kill it, return the number of the next batch.

    Every writer but the first repeats the last batch that was acknowledged, and the one that was
    under way, as a journal would deliver them again.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "tests/fault/store_writer.py"),
        str(folder),
        str(max(0, first - 1)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n", "the store did not open"
    reading = asyncio.create_task(process.stdout.read())
    await asyncio.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    acknowledged = [int(line) for line in (await reading).split()]
    assert await process.wait() == -signal.SIGKILL
    return acknowledged[-1] + 1 if acknowledged else first


async def test_acknowledged_rows_survive_kills_and_are_seen_once(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    chance = random.Random(20)
    done = 0
    for _ in range(KILLS):
        done = await write_until_killed(folder, done, chance.uniform(0.3, 1.5))
    assert done > 0, "no batch was acknowledged before a kill"

    store = await ClickHouseStore.open(
        f"chdb://{folder}", StoreConfig(), Metrics(CollectorRegistry())
    )
    try:
        for batch in range(max(0, done - 3), done + 1):  # what a journal may deliver again
            await store_writer.write(store, batch)
        await _assert_each_is_there_once(store, done + 1)
    finally:
        await store.close()


async def _assert_each_is_there_once(store: ClickHouseStore, batches: int) -> None:
    for batch in range(batches):
        known = await store.known(trace_ids(batch))
        assert {key: value.telemetry for key, value in known.items()} == {
            trace_id: trace_id.encode() * 200 for trace_id in trace_ids(batch)
        }
    window = {"since": AT, "until": AT + timedelta(days=14)}
    judge = {"segment": "", "scorer": "faithfulness", "fingerprint": "current"}
    (accounting,) = await store.rows("accounting", {**window, **judge})
    assert (accounting["requests"], accounting["judged"]) == (batches * ROWS, batches * ROWS)
    (judges,) = await store.rows("latest_fingerprint", window)
    assert judges["judged"] == batches * ROWS
    (signals,) = await store.rows("signals_summary", window)
    assert (signals["signals"], signals["matched"]) == (batches * ROWS, batches * ROWS)
