"""Time of the review's pages with many stored requests, against the bare queries behind them.

python -m tests.bench.review --requests 1000000
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.telemetry import Metrics
from dashboards.reports import Reports
from dashboards.review.app import build_review
from dashboards.windows import last
from sinks.clickhouse import ClickHouseStore
from sinks.connection import WRITER_SETTINGS, connect
from sinks.migrate import migrate_url

ROUNDS = 5
JUDGE = "bench"
# Four turns a conversation, eight segments, a tenth is judged, one answer in twenty is bad.
REQUESTS = """
INSERT INTO requests (filed_at, batch_id, trace_id, version, service, started_at, conversation_id,
  segment, question, answer, status, sampled, probability, uniform, stratum, salt, decided_at,
  lexical_score, documents.rank, documents.document_id, documents.text)
SELECT now64(6) - toIntervalSecond(number * 604000 / {count:UInt64}) AS at, 'bench',
  lower(hex(MD5(toString(number)))), 1, 'bot', at, concat('c', toString(intDiv(number, 4))),
  concat('segment-', toString(number % 8)), concat('question ', toString(number)),
  concat('answer ', toString(number)), 'ok', number % 10 = 0, 0.1, 0, 'all', 's', at, 0.9,
  [1, 2], ['page-1', 'page-2'], ['One page of text.', 'Another page of text.']
FROM numbers({count:UInt64})
"""
JUDGEMENTS = """
INSERT INTO judgements (filed_at, batch_id, rank, trace_id, scorer, fingerprint, status, score,
  request_version, judged_at, claims.text, claims.verdict, claims.quote, claims.document_rank,
  claims.note)
SELECT filed_at, 'bench', 1, trace_id, 'faithfulness', 'bench', 'judged',
  if(cityHash64(trace_id) % 20 = 0, 0.5, 1), 1, filed_at, ['one', 'two'],
  ['SUPPORTED', if(cityHash64(trace_id) % 20 = 0, 'NOT_FOUND', 'SUPPORTED')],
  [NULL, NULL], [NULL, NULL], [NULL, NULL]
FROM requests WHERE sampled
"""


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    """Return the fastest of some rounds; the others were disturbed."""
    found = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await work()
        found.append(time.perf_counter() - started)
    return min(found)


async def _measure(folder: Path) -> None:
    store = await ClickHouseStore.open(
        f"chdb://{folder}", StoreConfig(), Metrics(CollectorRegistry())
    )
    reports = Reports(store, JUDGE)
    app = build_review(reports, list, ["*"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://agent", timeout=120
    ) as client:

        async def page(path: str) -> None:
            (await client.get(path)).raise_for_status()

        window = last("7d", datetime.now(UTC))
        worst = (await reports.worst(window, "", 1))[0]
        name, trace_id = worst["conversation"], worst["worst_trace_id"]
        pairs = {
            "week view": (lambda: page("/"), lambda: reports.worst(window, "", 20)),
            "conversation view": (
                lambda: page(f"/conversation/{name}?turn={trace_id}"),
                lambda: reports.turns(name, trace_id),
            ),
        }
        for what, (whole, bare) in pairs.items():
            took, floor = await _seconds(whole), await _seconds(bare)
            print(f"{what:18} {1000 * took:6.0f} ms, {took / floor:4.1f} times its bare query")
    await store.close()


def main() -> None:
    """Fill a store in a temporary folder and time the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    count = parser.parse_args().requests
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        url = f"chdb://{folder}"
        migrate_url(url, dry_run=False)
        client = connect(url, WRITER_SETTINGS)
        client.command(REQUESTS, parameters={"count": count})
        client.command(JUDGEMENTS)
        client.close()
        print(f"{count} requests of one week in the embedded store")
        asyncio.run(_measure(folder))


if __name__ == "__main__":
    main()
