"""Identical work is judged and paid once: under way, after it, and over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.errors import Postponed
from collector.model import Document
from collector.ports import Store
from collector.telemetry import Metrics
from scorers.judge.cache import CachedJudge, content_hash
from scorers.judge.client import OpenAIJudge
from sinks.clickhouse import ClickHouseStore
from tests.contract.test_judges import PAGES, make_config, make_request
from tests.fakes import openai_server as fake
from tests.fakes.openai_server import OpenAIServer
from tests.fakes.store import MemoryStore


@asynccontextmanager
async def cached(
    server: OpenAIServer, store: Store, metrics: Metrics, **changes: Any
) -> AsyncIterator[CachedJudge]:
    judge = CachedJudge(OpenAIJudge(make_config(server, **changes)), store, metrics)
    try:
        yield judge
    finally:
        await judge.close()


async def test_two_identical_tasks_under_way_share_one_call(metrics: Metrics) -> None:
    with OpenAIServer(latency_seconds=0.1) as server:
        async with cached(server, MemoryStore(), metrics) as judge:
            done = await asyncio.gather(
                *(judge.judge(make_request(trace_id=f"{n:032x}")) for n in range(10))
            )
    assert len(server.requests) == 2
    assert [one.trace_id for one in done] == [f"{n:032x}" for n in range(10)]
    assert {one.score for one in done} == {0.5}
    assert {len(one.claims) for one in done} == {2}
    assert sum(one.usage.calls for one in done) == 2
    assert [one.usage.cost_usd for one in done].count(0.0) == 9


async def test_a_failure_is_nobodys_verdict_and_each_tries_for_itself(metrics: Metrics) -> None:
    with OpenAIServer([fake.refusal()]) as server:
        async with cached(server, MemoryStore(), metrics) as judge:
            done = await asyncio.gather(judge.judge(make_request()), judge.judge(make_request()))
    assert sorted(str(one.reason) for one in done) == ["None", "refused"]


async def test_a_wait_for_an_endpoint_is_passed_on(metrics: Metrics) -> None:
    with OpenAIServer(default=fake.rate_limited("3600")) as server:
        async with cached(server, MemoryStore(), metrics) as judge:
            done = await asyncio.gather(
                *(judge.judge(make_request()) for _ in range(3)), return_exceptions=True
            )
    assert [type(one) for one in done] == [Postponed] * 3


async def test_verdicts_are_found_again_after_a_restart(tmp_path: Path) -> None:
    url = f"chdb://{tmp_path / 'store'}"
    with OpenAIServer() as server:
        store = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
        async with cached(server, store, Metrics(CollectorRegistry())) as judge:
            first = await judge.judge(make_request())
            await store.write_judgements([first], {})
        await store.close()
        calls = len(server.requests)
        store = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
        registry = CollectorRegistry()
        async with cached(server, store, Metrics(registry)) as judge:
            again = await judge.judge(make_request(trace_id="f" * 32))
            assert len(server.requests) == calls
            other = await judge.judge(make_request(answer="The Pro plan includes SSO."))
            assert (other.score, len(server.requests)) == (1.0, calls + 2)
        async with cached(server, store, Metrics(CollectorRegistry()), model="judge-2") as judge:
            calls = len(server.requests)
            await judge.judge(make_request())
            assert len(server.requests) == calls + 2  # another model is another opinion
        await store.close()
    assert registry.get_sample_value("groundwatch_judge_reused_total") == 1
    plain = ("scorer", "fingerprint", "status", "score", "claims", "model", "engine")
    assert [getattr(again, f) for f in plain] == [getattr(first, f) for f in plain]
    assert again.trace_id == "f" * 32
    assert (again.usage.calls, again.usage.cost_usd) == (0, 0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"question": "What does Pro cost?"},
        {"answer": "The Pro plan includes SSO."},
        {"documents": PAGES[:1]},
        {"documents": [PAGES[1], PAGES[0]]},
        {"documents": [*PAGES, Document(rank=3, text="More.")]},
        {"documents": [msgspec.structs.replace(PAGES[0], title="Other"), PAGES[1]]},
    ],
)
def test_whatever_the_judge_is_shown_makes_other_content(changes: dict[str, Any]) -> None:
    assert content_hash(make_request(**changes)) != content_hash(make_request())


def test_what_it_is_not_shown_makes_none() -> None:
    shown = make_request(
        trace_id="f" * 32,
        user_id="u",
        documents=[msgspec.structs.replace(page, score=0.3) for page in PAGES],
    )
    assert content_hash(shown) == content_hash(make_request())
