"""The daily budget holds over workers, processes, crashes and restarts, and waits, never scores."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from collector.config import PriceConfig
from collector.errors import PermanentDependencyError, Postponed
from collector.ports import Spending
from collector.telemetry import Metrics
from collector.timing import SystemClock
from scorers.judge.budget import Budget
from scorers.judge.client import OpenAIJudge
from sinks.spend_ledger import SpendLedger
from tests.contract.test_judges import make_config, make_request
from tests.fakes import openai_server as fake
from tests.fakes.clocks import StoppedClock
from tests.fakes.openai_server import OpenAIServer

NOON = datetime(2026, 11, 4, 12, 0, tzinfo=UTC)
PRICE = PriceConfig(input_usd_per_mtok=1.0, output_usd_per_mtok=4.0)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SpendLedger]:
    opened = await SpendLedger.open(tmp_path / "spend.sqlite")
    yield opened
    await opened.close()


# --- The record --------------------------------------------------------------------------


async def test_what_is_set_aside_counts_until_it_is_settled(ledger: SpendLedger) -> None:
    first = await ledger.reserve(0.6, 1.0, NOON)
    assert first is not None
    assert await ledger.reserve(0.5, 1.0, NOON) is None
    await ledger.settle(first, 0.1)
    await ledger.settle(first, 0.1)
    assert await ledger.spending(NOON) == Spending(0.1, 0.0, 0.1)
    assert await ledger.reserve(0.9, 1.0, NOON) is not None
    assert await ledger.reserve(0.01, 1.0, NOON) is None


async def test_the_next_utc_day_begins_at_nothing(ledger: SpendLedger) -> None:
    last = datetime(2026, 11, 4, 23, 59, 59, tzinfo=UTC)
    assert await ledger.reserve(1.0, 1.0, last) is not None
    assert await ledger.reserve(0.1, 1.0, last) is None
    assert await ledger.reserve(1.0, 1.0, last + timedelta(seconds=1)) is not None
    # A zone of its own changes nothing: it is the same day in UTC.
    elsewhere = (last - timedelta(hours=1)).astimezone(tz=None)
    assert await ledger.reserve(0.1, 1.0, elsewhere) is None


async def test_money_of_a_process_that_died_stays_charged_for_the_day(tmp_path: Path) -> None:
    path = tmp_path / "spend.sqlite"
    process = multiprocessing.get_context("spawn").Process(target=reserve_and_die, args=(path,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    ledger = await SpendLedger.open(path)
    try:
        assert await ledger.spending(NOON) == Spending(0.1, 0.7, 0.1)
        assert await ledger.reserve(0.3, 1.0, NOON) is None
    finally:
        await ledger.close()


def reserve_and_die(path: Path) -> None:
    async def spend() -> None:
        ledger = await SpendLedger.open(path)
        settled = await ledger.reserve(0.5, 1.0, NOON)
        assert settled is not None
        await ledger.settle(settled, 0.1)
        await ledger.reserve(0.7, 1.0, NOON)
        os._exit(9)

    asyncio.run(spend())


async def test_workers_of_several_processes_never_set_aside_more_than_the_limit(
    tmp_path: Path,
) -> None:
    """Three at once, each with a connection of its own as a process has."""
    ledgers = [await SpendLedger.open(tmp_path / "spend.sqlite") for _ in range(3)]
    try:

        async def spend(ledger: SpendLedger) -> int:
            done = 0
            while (reservation := await ledger.reserve(0.01, 1.0, NOON)) is not None:
                await ledger.settle(reservation, 0.01)
                done += 1
            return done

        done = await asyncio.gather(*(spend(ledger) for ledger in ledgers))
        total = await ledgers[0].spending(NOON)
    finally:
        for ledger in ledgers:
            await ledger.close()
    assert sum(done) in (99, 100)  # a hundred hundredths, as far as they add up in binary
    assert total.today_usd == pytest.approx(sum(done) * 0.01)
    assert total.today_usd <= 1.0
    assert min(done) > 0


async def test_another_database_is_not_taken_for_a_record_of_spend(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("create table t(x)")
    with pytest.raises(PermanentDependencyError, match="no record of spend"):
        await SpendLedger.open(path)


# --- The judge ---------------------------------------------------------------------------


def judge_on(
    server: OpenAIServer, ledger: SpendLedger, limit_usd: float, clock: StoppedClock | None = None
) -> OpenAIJudge:
    config = make_config(server, prices={"judge-1": PRICE})
    budget = Budget(ledger, limit_usd, None, clock or SystemClock())
    return OpenAIJudge(config, budget=budget)


async def spend_all(judge: OpenAIJudge) -> tuple[int, Postponed]:
    """Judge until the budget says no; return how many were judged, and what it said."""
    done = 0
    while True:
        try:
            judgement = await judge.judge(make_request())
        except Postponed as err:
            if err.retry_after_seconds > 10:
                return done, err
            await asyncio.sleep(0.05)
            continue
        assert (judgement.status, judgement.score) == ("judged", 0.5)
        done += 1


async def test_three_workers_stay_within_one_budget_and_a_restart_changes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "spend.sqlite"
    limit = 0.02
    with OpenAIServer() as server:
        ledgers = [await SpendLedger.open(path) for _ in range(3)]
        judges = [judge_on(server, ledger, limit) for ledger in ledgers]
        ends = await asyncio.gather(*(spend_all(judge) for judge in judges))
        for judge, ledger in zip(judges, ledgers, strict=True):
            await judge.close()
            await ledger.close()
        paid = sum(cost_of(received) for received in server.requests)
        # The last call that was not sent might have cost what one call costs at most.
        assert 0.6 * limit < paid <= limit
        assert {end.cause for _, end in ends} == {"budget_exhausted"}
        assert min(done for done, _ in ends) > 0

        again = await SpendLedger.open(path)
        judge = judge_on(server, again, limit)
        calls = len(server.requests)
        done, _ = await spend_all(judge)
        assert (done, len(server.requests)) == (0, calls)
        assert (await again.spending(datetime.now(UTC))).today_usd == pytest.approx(paid)
        await judge.close()
        await again.close()


def cost_of(received: fake.Received) -> float:
    """Return what the fake bills for a call: its own count of tokens at the price of the test."""
    usage = fake.usage_of(received.body)
    return float(usage["prompt_tokens"] + 4 * usage["completion_tokens"]) / 1e6


async def test_an_exhausted_budget_is_waited_out_until_the_next_utc_day(
    ledger: SpendLedger,
) -> None:
    clock = StoppedClock(NOON)
    with OpenAIServer() as server:
        judge = judge_on(server, ledger, 0.01, clock)
        _, end = await spend_all(judge)
        assert end.retry_after_seconds == 12 * 3600
        clock.at = NOON + timedelta(hours=12)
        judgement = await judge.judge(make_request())
        assert judgement.score == 0.5
        await judge.close()


async def test_a_call_that_no_day_can_pay_for_fails_and_blocks_nothing(
    ledger: SpendLedger,
) -> None:
    with OpenAIServer() as server:
        judge = judge_on(server, ledger, 0.004)
        judgement = await judge.judge(make_request(answer="It is so. " * 2000))
        assert (judgement.status, judgement.score) == ("failed", None)
        assert judgement.reason == "budget_exhausted"
        assert server.requests == []
        assert (await judge.judge(make_request())).score == 0.5
        await judge.close()


@pytest.mark.parametrize(
    ("behaviour", "charged"),
    [
        pytest.param(fake.rate_limited(), "nothing", id="429"),
        pytest.param(fake.bad_request(), "nothing", id="400"),
        pytest.param(fake.server_error(), "nothing", id="500"),
        pytest.param(fake.connection_drop(), "the most", id="connection dropped in the reply"),
        pytest.param(fake.slow(5), "the most", id="no reply in time"),
        pytest.param(fake.html_page(), "the most", id="a reply without counts"),
    ],
)
async def test_a_call_that_failed_is_charged_only_where_it_may_be_billed(
    ledger: SpendLedger, behaviour: fake.Behaviour, charged: str
) -> None:
    with OpenAIServer(default=behaviour) as server:
        config = make_config(server, prices={"judge-1": PRICE}, max_retries=0, timeout_seconds=0.5)
        judge = OpenAIJudge(config, budget=Budget(ledger, 1.0, None, SystemClock()))
        judgement = await judge.judge(make_request())
        await judge.close()
    assert judgement.status == "failed"
    spent = await ledger.spending(datetime.now(UTC))
    assert spent.reserved_usd == 0
    assert (spent.today_usd > 0.0001) == (charged == "the most")


async def test_spend_remaining_and_forecast_are_shown(ledger: SpendLedger) -> None:
    registry = CollectorRegistry()
    clock = StoppedClock(NOON)
    budget = Budget(ledger, 10.0, Metrics(registry), clock)
    early = await ledger.reserve(1.0, None, NOON - timedelta(hours=5))
    late = await ledger.reserve(1.0, None, NOON - timedelta(minutes=10))
    assert early is not None
    assert late is not None
    await ledger.settle(early, 1.0)
    await ledger.settle(late, 0.25)
    await ledger.reserve(0.5, None, NOON)
    await budget.show()

    def shown(name: str) -> float | None:
        return registry.get_sample_value(f"groundwatch_judge_spend_{name}")

    assert shown("today_usd") == 1.75
    assert shown("today_usd_capacity") == 10
    assert shown("remaining_usd") == 8.25
    # A quarter of a dollar in the last hour, twelve hours to go.
    assert shown("forecast_usd") == 1.75 + 12 * 0.25
