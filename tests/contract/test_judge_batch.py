"""Judging by batches: nothing is paid twice, nothing is lost, whatever ends how and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from collector.config import PriceConfig
from collector.errors import Postponed
from collector.model import Judgement
from collector.ports import BatchAnswer
from collector.telemetry import Metrics
from collector.timing import SystemClock
from scorers.judge.batch import batch_pool
from scorers.judge.budget import Budget
from scorers.judge.client import OpenAIJudge
from sinks.batch_calls import SqliteBatchCalls
from sinks.spend_ledger import SpendLedger
from tests.contract.test_judges import make_config, make_request
from tests.fakes import openai_server as fake
from tests.fakes.openai_batches import Batches
from tests.fakes.openai_server import OpenAIServer

PRICE = PriceConfig(input_usd_per_mtok=1.0, output_usd_per_mtok=4.0)
POLL = 0.05


@asynccontextmanager
async def batching(
    folder: Path,
    server: OpenAIServer,
    limit_usd: float | None = None,
    metrics: Metrics | None = None,
) -> AsyncIterator[OpenAIJudge]:
    """A judge as one life of an agent has it, on what an earlier one left in the folder."""
    calls = SqliteBatchCalls(folder / "batches.sqlite")
    ledger = await SpendLedger.open(folder / "spend.sqlite")
    config = make_config(server, prices={"judge-1": PRICE})
    clock = SystemClock()
    budget = Budget(ledger, limit_usd, None, clock)
    pool = batch_pool(
        config, {}, calls, budget, metrics, clock, gather_seconds=POLL, poll_seconds=POLL
    )
    judge = OpenAIJudge(config, clock=clock, asker=pool)
    try:
        yield judge
    finally:
        await judge.close()
        await calls.close()
        await ledger.close()


async def patiently(judge: OpenAIJudge, seconds: float = 10.0, **changes: Any) -> Judgement:
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await judge.judge(make_request(**changes))
            except Postponed as err:
                await asyncio.sleep(err.retry_after_seconds)


async def until_made(batches: Batches, count: int) -> None:
    async with asyncio.timeout(10):
        while len(batches.made) < count:  # noqa: ASYNC110 - state of another thread
            await asyncio.sleep(0.02)


async def test_judgements_come_by_batches_at_half_the_price(tmp_path: Path) -> None:
    batches = Batches()
    with OpenAIServer(routes=batches.routes) as server:
        registry = CollectorRegistry()
        async with batching(tmp_path, server, metrics=Metrics(registry)) as judge:
            answers = ["The Pro plan includes SSO.", "The Pro plan costs 49 dollars a month."]
            done = await asyncio.gather(*(patiently(judge, answer=a) for a in answers))
        ledger = await SpendLedger.open(tmp_path / "spend.sqlite")
        spent = await ledger.spending(datetime.now(UTC))
        await ledger.close()
    assert server.requests == []
    assert [one.score for one in done] == [1.0, 0.0]
    assert len(batches.lines) == 4
    assert {batch["completion_window"] for batch in batches.made} == {"24h"}
    usages = [fake.usage_of(line["body"]) for line in batches.lines]
    full = sum(u["prompt_tokens"] + 4 * u["completion_tokens"] for u in usages) / 1e6
    assert sum(one.usage.cost_usd or 0 for one in done) == pytest.approx(full / 2)
    assert spent.today_usd == pytest.approx(full / 2)
    assert spent.reserved_usd == 0
    assert registry.get_sample_value("groundwatch_judge_cost_usd_total") == pytest.approx(full / 2)
    assert registry.get_sample_value("groundwatch_judge_calls_total", {"outcome": "ok"}) == 4


async def test_a_batch_under_way_is_found_again_after_a_restart_and_paid_once(
    tmp_path: Path,
) -> None:
    batches = Batches()
    batches.ending = None
    with OpenAIServer(routes=batches.routes) as server:
        async with batching(tmp_path, server) as judge:
            with pytest.raises(Postponed):
                await judge.judge(make_request())
            await until_made(batches, 1)
        batches.ending = "completed"
        async with batching(tmp_path, server) as judge:
            judgement = await patiently(judge)
    assert judgement.score == 0.5
    assert len(batches.lines) == 2


async def test_a_batch_whose_making_was_not_confirmed_is_found_and_not_made_again(
    tmp_path: Path,
) -> None:
    batches = Batches()
    batches.lose_next_reply = True
    with OpenAIServer(routes=batches.routes) as server:
        async with batching(tmp_path, server) as judge:
            judgement = await patiently(judge)
    assert judgement.score == 0.5
    assert len(batches.lines) == 2


async def test_what_a_batch_that_expired_left_out_is_asked_again_and_the_rest_is_not(
    tmp_path: Path,
) -> None:
    batches = Batches()
    batches.ending, batches.answered = None, 1
    answers = [f"The Pro plan costs {n} dollars a month." for n in (59, 49, 39)]
    with OpenAIServer(routes=batches.routes) as server:
        async with batching(tmp_path, server) as judge:
            asking = asyncio.gather(*(patiently(judge, answer=a) for a in answers))
            await until_made(batches, 1)
            batches.ending = "expired"
            await until_made(batches, 2)
            batches.ending, batches.answered = "completed", None
            done = await asking
    assert [one.score for one in done] == [1.0, 0.0, 0.0]
    asked = [line["custom_id"] for line in batches.lines]
    assert len(set(asked)) == 6


@pytest.mark.parametrize(
    ("behaviour", "cause"),
    [
        pytest.param(fake.content_filter_error(), "content_filter", id="400 of a filter"),
        pytest.param(fake.context_length_exceeded(), "context_too_long", id="too long"),
        pytest.param(fake.refusal(), "refused", id="refused"),
        pytest.param(fake.wrong_json(), "unparseable", id="prose"),
        pytest.param(fake.no_choices(), "empty_reply", id="no choices"),
    ],
)
async def test_a_failure_within_a_batch_fails_its_judgement_with_its_cause(
    tmp_path: Path, behaviour: fake.Behaviour, cause: str
) -> None:
    batches = Batches(behaviour)
    with OpenAIServer(routes=batches.routes) as server:
        async with batching(tmp_path, server) as judge:
            judgement = await patiently(judge)
    assert (judgement.status, judgement.score, judgement.reason) == ("failed", None, cause)


async def test_errors_of_the_provider_within_a_batch_are_asked_again(tmp_path: Path) -> None:
    batches = Batches(fake.server_error())
    with OpenAIServer(routes=batches.routes) as server:
        async with batching(tmp_path, server) as judge:
            asking = asyncio.create_task(patiently(judge))
            await until_made(batches, 2)
            batches.behaviour = fake.good()
            judgement = await asking
    assert judgement.score == 0.5


async def test_a_budget_bounds_what_a_batch_may_hold(tmp_path: Path) -> None:
    batches = Batches()
    batches.ending = None
    with OpenAIServer(routes=batches.routes) as server:
        async with batching(tmp_path, server, limit_usd=0.004) as judge:
            for number in range(20):
                with pytest.raises(Postponed):
                    await judge.judge(make_request(answer=f"The Pro plan costs {number} dollars."))
            await until_made(batches, 1)
            await asyncio.sleep(4 * POLL)
    assert 0 < len(batches.lines) < 20


async def test_texts_are_gone_from_the_file_a_while_after_their_judgement(
    tmp_path: Path,
) -> None:
    calls = SqliteBatchCalls(tmp_path / "batches.sqlite")
    now = datetime.now(UTC)
    await calls.add("k", b"a canary question", now)
    await calls.sending("b", ["k"])
    await calls.sent("b", "batch_1", None)
    await calls.ended("b", {})
    await calls.forget(now + timedelta(days=3))
    assert await calls.answer("k") is not None  # its judgement may still come for it
    await calls.finished(["k"], now)
    await calls.forget(now + timedelta(seconds=1))
    assert await calls.answer("k") is None
    await calls.close()
    kept = texts_below(tmp_path)
    assert kept
    assert b"canary" not in kept


def texts_below(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_an_answer_that_comes_while_it_is_looked_for_is_not_paid_for_twice(
    tmp_path: Path,
) -> None:
    now = datetime.now(UTC)
    calls = SqliteBatchCalls(tmp_path / "batches.sqlite")
    await calls.add("k", b"a question", now)
    assert await calls.answer("k") is None
    await calls.sending("b", ["k"])
    await calls.sent("b", "batch-1", None)
    await calls.ended("b", {"k": BatchAnswer(200, b"an answer")})
    await calls.add("k", b"a question", now)
    assert await calls.answer("k") == BatchAnswer(200, b"an answer")
    assert await calls.take(now, 10) == []
    # One that is of no use is asked for again.
    await calls.add("k", b"a question", now, again=True)
    assert await calls.answer("k") is None
    assert await calls.take(now, 10) == [("k", b"a question")]
    await calls.close()
