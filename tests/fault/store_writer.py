"""Writes numbered batches into a store until it is killed: `store_writer.py FOLDER NEXT_BATCH`.

Says `ready` once the store is open and a batch number each time a batch was acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import Decision, Judgement, RagRequest, Signal, StoredRequest
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore

AT = datetime(2026, 11, 4, 12, 0, tzinfo=UTC)
ROWS = 25


def trace_ids(batch: int) -> list[str]:
    return [f"{batch:06d}-{row:02d}" for row in range(ROWS)]


def request(trace_id: str, batch: int) -> StoredRequest:
    # Two weeks, so that one batch takes two inserts.
    started_at = AT + timedelta(days=7 * (int(trace_id[-2:]) % 2), seconds=batch)
    return StoredRequest(
        request=RagRequest(
            trace_id=trace_id, started_at=started_at, segment="s", answer="a" * 4000
        ),
        version=1,
        decision=Decision(
            sampled=True, probability=1.0, uniform=0.0, stratum="all", salt="s", decided_at=AT
        ),
        telemetry=trace_id.encode() * 200,
    )


def judgement(trace_id: str) -> Judgement:
    return Judgement(
        trace_id=trace_id,
        scorer="faithfulness",
        fingerprint="current",
        status="judged",
        score=0.5,
        request_version=1,
        judged_at=AT,
    )


def thumb(trace_id: str) -> Signal:
    return Signal(
        signal_id=trace_id,
        kind="thumbs_down",
        occurred_at=AT,
        received_at=AT,
        trace_id=trace_id,
        sentiment=-1,
    )


async def write(store: ClickHouseStore, batch: int) -> None:
    rows = [request(trace_id, batch) for trace_id in trace_ids(batch)]
    await store.write_requests(rows)
    await store.write_judgements([judgement(i) for i in trace_ids(batch)], {})
    await store.write_signals([thumb(trace_id) for trace_id in trace_ids(batch)])


async def main(folder: str, batch: int) -> None:
    store = await ClickHouseStore.open(
        f"chdb://{folder}", StoreConfig(), Metrics(CollectorRegistry())
    )
    print("ready", flush=True)
    while True:
        await write(store, batch)
        print(batch, flush=True)
        batch += 1


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
