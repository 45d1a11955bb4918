"""The daily budget holds over workers, processes, crashes and restarts, and waits, never scores."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from collector.config import Config, PriceConfig, StoreConfig
from collector.errors import PermanentDependencyError, Postponed
from collector.judges import open_budget
from collector.ports import Ledger, Spending
from collector.telemetry import Metrics
from collector.timing import SystemClock
from scorers.judge.budget import Budget
from scorers.judge.client import OpenAIJudge
from sinks.connection import connect
from sinks.migrate import migrate_url
from sinks.shared_ledger import SharedLedger
from sinks.spend_ledger import SpendLedger
from tests.contract.test_judges import make_config, make_request
from tests.fakes import openai_server as fake
from tests.fakes.clickhouse_server import a_database, a_server
from tests.fakes.clocks import StoppedClock
from tests.fakes.openai_server import OpenAIServer

NOON = datetime(2026, 11, 4, 12, 0, tzinfo=UTC)
PRICE = PriceConfig(input_usd_per_mtok=1.0, output_usd_per_mtok=4.0)


Opener = Callable[[], Awaitable[Ledger]]
"""Opens one more ledger on the same record, as another process would."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreConfig]:
    with a_server(tmp_path_factory.mktemp("server")) as url, a_database(url) as config:
        migrate_url(config.url or "", cluster=config.cluster)
        yield config


@pytest.fixture
def table(database: StoreConfig) -> Iterator[Opener]:
    yield partial(SharedLedger.open, database.url or "", database.cluster)
    with closing(connect(database.url or "", {})) as client:
        client.command("TRUNCATE TABLE spend")


@pytest.fixture(params=["a file", "a table of ClickHouse"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "a file":
        return partial(SpendLedger.open, tmp_path / "spend.sqlite")
    found: Opener = request.getfixturevalue("table")
    return found


@pytest.fixture
async def ledger(opener: Opener) -> AsyncIterator[Ledger]:
    opened = await opener()
    yield opened
    await opened.close()


# --- The record --------------------------------------------------------------------------


async def test_what_is_set_aside_counts_until_it_is_settled(ledger: Ledger) -> None:
    first = await ledger.reserve(0.6, 1.0, NOON)
    assert first is not None
    assert await ledger.reserve(0.5, 1.0, NOON) is None
    await ledger.settle(first, 0.1)
    await ledger.settle(first, 0.1)
    assert await ledger.spending(NOON) == Spending(0.1, 0.0, 0.1)
    assert await ledger.reserve(0.9, 1.0, NOON) is not None
    assert await ledger.reserve(0.01, 1.0, NOON) is None


async def test_the_next_utc_day_begins_at_nothing(ledger: Ledger) -> None:
    last = datetime(2026, 11, 4, 23, 59, 59, tzinfo=UTC)
    assert await ledger.reserve(1.0, 1.0, last) is not None
    assert await ledger.reserve(0.1, 1.0, last) is None
    assert await ledger.reserve(1.0, 1.0, last + timedelta(seconds=1)) is not None
    # A zone of its own changes nothing: it is the same day in UTC.
    elsewhere = (last - timedelta(hours=1)).astimezone(tz=None)
    assert await ledger.reserve(0.1, 1.0, elsewhere) is None


async def test_money_of_a_process_that_died_stays_charged_for_the_day(opener: Opener) -> None:
    process = multiprocessing.get_context("spawn").Process(target=reserve_and_die, args=(opener,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    ledger = await opener()
    try:
        assert await ledger.spending(NOON) == Spending(0.1, 0.7, 0.1)
        assert await ledger.reserve(0.3, 1.0, NOON) is None
    finally:
        await ledger.close()


def reserve_and_die(opener: Opener) -> None:
    async def spend() -> None:
        ledger = await opener()
        settled = await ledger.reserve(0.5, 1.0, NOON)
        assert settled is not None
        await ledger.settle(settled, 0.1)
        await ledger.reserve(0.7, 1.0, NOON)
        os._exit(9)

    asyncio.run(spend())


async def test_workers_of_several_processes_never_set_aside_more_than_the_limit(
    opener: Opener,
) -> None:
    """Three at once, each with a connection of its own as a process has."""
    ledgers = [await opener() for _ in range(3)]
    try:

        async def spend(ledger: Ledger) -> int:
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
    # A hundred hundredths, as far as they add up in binary. In a table, who asks for the last
    # while another has it set aside for a moment is told no.
    assert (97 if isinstance(ledgers[0], SharedLedger) else 99) <= sum(done) <= 100
    assert total.today_usd == pytest.approx(sum(done) * 0.01)
    assert total.today_usd <= 1.0
    assert min(done) > 0


async def test_another_database_is_not_taken_for_a_record_of_spend(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("create table t(x)")
    with pytest.raises(PermanentDependencyError, match="no record of spend"):
        await SpendLedger.open(path)


async def test_of_a_shared_budget_small_sums_are_set_aside_together(table: Opener) -> None:
    """A call of a hundredth of a cent and a budget of a dollar: pots are a 500th, 0.2 cents."""
    first, second = await table(), await table()
    try:
        for _ in range(30):
            handle = await first.reserve(0.0001, 1.0, NOON)
            assert handle is not None
            await first.settle(handle, 0.00005)
            await first.settle(handle, 0.00005)
        # To others its pot is taken as a whole, whatever it has spent of it.
        assert await second.spending(NOON) == Spending(0.0, 0.002, 0.0)
        # All but the pot; of the pot itself a second process is given nothing.
        assert await second.reserve(0.998, 1.0, NOON) is not None
        assert await second.reserve(0.0001, 1.0, NOON) is None
        assert await first.reserve(0.0001, 1.0, NOON) is not None
    finally:
        await first.close()
        await second.close()
    third = await table()
    # Closed with a call under way, which stays charged in full.
    assert await third.spending(NOON) == pytest.approx((0.0016, 0.998, 0.0016))
    await third.close()


async def test_what_is_left_of_a_pot_is_put_back(table: Opener) -> None:
    first, second = await table(), await table()
    handle = await first.reserve(0.0001, 1.0, NOON)
    assert handle is not None
    await first.settle(handle, 0.0001)
    await first.close()
    assert await second.spending(NOON) == Spending(0.0001, 0.0, 0.0001)
    assert await second.reserve(0.9999, 1.0, NOON) is not None
    await second.close()


@pytest.mark.usefixtures("table")
async def test_agents_on_one_clickhouse_server_share_a_budget_wherever_they_run(
    database: StoreConfig, tmp_path: Path
) -> None:
    prices = {"judge-1": PRICE.model_dump()}
    openai = {"model": "judge-1", "daily_budget_usd": 1.0, "prices": prices}
    async with AsyncExitStack() as stack:

        async def agent(name: str) -> Budget:
            judge = {"engine": "openai", "openai": openai}
            settings = {"data_dir": tmp_path / name, "judge": judge}
            config = Config.model_validate(settings).model_copy(update={"store": database})
            return await open_budget(config, Metrics(CollectorRegistry()), SystemClock(), stack)

        one, other = await agent("one"), await agent("other")
        async with one.charge(0.75) as charge:
            with pytest.raises(Postponed, match="budget_exhausted") as told:
                async with other.charge(0.5):
                    pass
            charge.settle(0.25)
        await asyncio.sleep(told.value.retry_after_seconds)
        async with other.charge(0.5):
            pass


# --- The judge ---------------------------------------------------------------------------


def judge_on(
    server: OpenAIServer, ledger: Ledger, limit_usd: float, clock: StoppedClock | None = None
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
    opener: Opener,
) -> None:
    limit = 0.02
    with OpenAIServer() as server:
        ledgers = [await opener() for _ in range(3)]
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

        again = await opener()
        judge = judge_on(server, again, limit)
        calls = len(server.requests)
        done, _ = await spend_all(judge)
        assert done == 0
        # By a table, what was too little for the second of a judgement's calls may pay for a first.
        assert isinstance(again, SharedLedger) or len(server.requests) == calls
        paid = sum(cost_of(received) for received in server.requests)
        assert paid <= limit
        assert (await again.spending(datetime.now(UTC))).today_usd == pytest.approx(paid)
        await judge.close()
        await again.close()


def cost_of(received: fake.Received) -> float:
    """Return what the fake bills for a call: its own count of tokens at the price of the test."""
    usage = fake.usage_of(received.body)
    return float(usage["prompt_tokens"] + 4 * usage["completion_tokens"]) / 1e6


async def test_an_exhausted_budget_is_waited_out_until_the_next_utc_day(
    ledger: Ledger,
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
    ledger: Ledger,
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
    ledger: Ledger, behaviour: fake.Behaviour, charged: str
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


async def test_spend_remaining_and_forecast_are_shown(ledger: Ledger) -> None:
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


async def test_a_process_that_does_not_judge_shows_no_bound_of_money() -> None:
    """Else the least bound of a fleet, which dashboards show, would be nothing."""
    registry = CollectorRegistry()
    await Budget(None, None, Metrics(registry), StoppedClock(NOON)).show()
    for name in ("today_usd_capacity", "remaining_usd"):
        assert registry.get_sample_value(f"groundwatch_judge_spend_{name}") == float("inf")
