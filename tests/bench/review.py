"""Time of the review's pages with many stored requests, against the bare queries behind them.

python -m tests.bench.review --requests 1000000 --weeks 13

Cold is a page before anything was worked out, as when the agent has just started, or of a week
that nobody looked at. What it opens with is then worked out once, and the lists of its segments.
First and again are looks at a page after that. Beside each time stands how long processors worked
for it: on a busy machine that says more.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from collector.config import StoreConfig
from collector.telemetry import Metrics
from dashboards.reports import Reports
from dashboards.review.app import build_review
from dashboards.windows import last
from sinks.clickhouse import ClickHouseStore
from sinks.connection import WRITER_SETTINGS, connect
from sinks.migrate import migrate_url

ROUNDS = 5
COLD_ROUNDS = 2
JUDGE = "bench"
_SLICE = 50_000
# Four turns a conversation, eight segments, a tenth is judged, one answer in twenty is bad, one in
# 500 failed. One request in fifty has a thumb of a user, one in 33 an inferred signal.
REQUESTS = """
INSERT INTO requests (filed_at, batch_id, trace_id, version, service, started_at, conversation_id,
  segment, question, answer, status, sampled, probability, uniform, stratum, salt, decided_at,
  lexical_score, span_ids, documents.rank, documents.document_id, documents.text)
SELECT now64(6) - toIntervalSecond(number * {seconds:UInt64} / {count:UInt64}) AS at, 'bench',
  lower(hex(MD5(toString(number)))), 1, 'bot', at, concat('c', toString(intDiv(number, 4))),
  concat('segment-', toString(intDiv(number, 4) % 8)), concat('question ', toString(number)),
  concat('answer ', toString(number)), if(number % 500 = 3, 'error', 'ok'), number % 10 = 0, 0.1, 0,
  'all', 's', at, 0.5 + cityHash64(number) % 500 / 1000,
  arrayMap(n -> lower(hex(cityHash64(number, n))), range(8)),
  [1, 2], ['page-1', 'page-2'], ['One page of text.', 'Another page of text.']
FROM numbers({start:UInt64}, {slice:UInt64})
"""
SIGNALS = """
INSERT INTO signals (filed_at, batch_id, signal_id, rank, kind, occurred_at, received_at, trace_id,
  sentiment, source, confidence, revoked)
SELECT now64(6) - toIntervalSecond(number * {seconds:UInt64} / {count:UInt64}) AS at, 'bench',
  concat('signal ', toString(number)), 1,
  multiIf(number % 100 = 0, 'thumbs_up', number % 50 = 0, 'thumbs_down', 'rephrase'), at, at,
  lower(hex(MD5(toString(number)))), if(number % 100 = 0, 1, -1),
  if(number % 50 = 0, 'api', 'inferred'), if(number % 50 = 0, NULL, 0.7), false
FROM numbers({count:UInt64}) WHERE number % 50 = 0 OR number % 33 = 0
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


class Took(NamedTuple):
    """The fastest of some rounds, since the others were disturbed: seconds in all, and of work."""

    seconds: float
    work: float


async def _took(work: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> Took:
    found = []
    for _ in range(rounds):
        started, worked = time.perf_counter(), time.process_time()
        await work()
        found.append(Took(time.perf_counter() - started, time.process_time() - worked))
    return min(found)


async def _measure(folder: Path) -> None:
    store = await ClickHouseStore.open(
        f"chdb://{folder}", StoreConfig(), Metrics(CollectorRegistry())
    )
    reports = Reports(store, JUDGE)
    window = last("7d", datetime.now(UTC))

    async def list_alone() -> object:
        return await reports.worst(window, "", 20)

    def browser(app: Starlette) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app)
        return httpx.AsyncClient(transport=transport, base_url="http://agent", timeout=120)

    async def page(client: httpx.AsyncClient, path: str) -> None:
        (await client.get(path)).raise_for_status()

    async def cold(path: str) -> None:
        async with browser(build_review(reports, list, ["*"])) as client:
            await page(client, path)

    listing = await _took(list_alone)
    _print("week view, cold", await _took(partial(cold, "/"), COLD_ROUNDS), listing)
    app = build_review(reports, list, ["*"])
    desk = app.state.desk
    warming = await _took(desk.numbers.warm, 1)
    _print("warming, after start", warming, listing)
    worst = (await desk.week(last("7d", datetime.now(UTC))))["conversations"][0]
    name, trace_id = worst["conversation_id"], worst["worst_trace_id"]

    async def turns_alone() -> object:
        return await reports.turns(name, trace_id)

    async with browser(app) as client:
        pages = {
            "week view": "/",
            "week view, searched": "/?q=question",
            "week view, by state": "/?state=open",
            "week view, segment": "/?segment=segment-3",
        }
        for what, path in pages.items():
            first = await _took(partial(page, client, path), 1)
            _print(f"{what}, first", first, listing)
            _print(f"{what}, again", await _took(partial(page, client, path)), listing)
        path = f"/conversation/{name}?turn={trace_id}"
        took = await _took(partial(page, client, path))
        _print("conversation view", took, await _took(turns_alone))
    await store.close()


def _print(what: str, took: Took, bare: Took) -> None:
    print(
        f"{what:27} {1000 * took.seconds:6.0f} ms ({1000 * took.work:.0f} ms of work), "
        f"{took.seconds / bare.seconds:4.2f} times its bare query "
        f"({1000 * bare.seconds:.0f} ms, {1000 * bare.work:.0f} of work)",
        flush=True,
    )


def _fill(url: str, count: int, weeks: int) -> None:
    migrate_url(url, dry_run=False)
    client = connect(url, WRITER_SETTINGS)
    spread = {"count": count, "seconds": weeks * 604_000}
    for start in range(0, count, _SLICE):
        part = {"start": start, "slice": min(_SLICE, count - start)}
        client.command(REQUESTS, parameters={**spread, **part})
    client.command(JUDGEMENTS)
    client.command(SIGNALS, parameters=spread)
    client.close()


def main() -> None:
    """Fill a store in a temporary folder and time the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--weeks", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        _fill(f"chdb://{folder}", given.requests, given.weeks)
        print(f"{given.requests} requests of {given.weeks} weeks in the embedded store")
        load = ", ".join(f"{one:.0f}" for one in os.getloadavg())
        print(f"load {load} on {os.cpu_count()} processors")
        asyncio.run(_measure(folder))


if __name__ == "__main__":
    main()
