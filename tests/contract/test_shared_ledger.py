"""A shared budget: nothing is lost or spent twice where ClickHouse or a caller fails.

What both records of spend have in common is in `test_judge_budget`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta

import pytest

from collector.errors import PermanentDependencyError, Postponed, TransientDependencyError
from collector.ports import Spending
from scorers.judge.budget import Budget
from sinks.connection import connect
from sinks.migrate import migrate_url
from sinks.shared_ledger import SharedLedger
from tests.fakes.clickhouse_http import Answer, Fault, Served, serving
from tests.fakes.clocks import StoppedClock

NOON = datetime(2026, 11, 4, 12, 0, tzinfo=UTC)
NOTHING = Spending(0.0, 0.0, 0.0)
SMALL = 0.0015
"""Of a budget of a dollar, most of one pot: the second such sum needs another."""


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server")) as served:
        migrate_url(f"{served.url}/default", cluster=None)
        yield served


@pytest.fixture
async def ledger(clickhouse: Served) -> AsyncIterator[SharedLedger]:
    with closing(connect(f"{clickhouse.url}/default", {})) as client:
        client.command("TRUNCATE TABLE spend")
    opened = await another(clickhouse)
    yield opened
    clickhouse.faults.clear()
    await opened.close()


async def another(clickhouse: Served) -> SharedLedger:
    return await SharedLedger.open(f"{clickhouse.url}/default", None)


async def as_others_see_it(clickhouse: Served, at: datetime = NOON) -> Spending:
    ledger = await another(clickhouse)
    try:
        return await ledger.spending(at)
    finally:
        await ledger.close()


def never_in(_: object) -> Answer | None:
    return None


def in_without_an_answer(carry_out: object) -> Answer | None:
    assert callable(carry_out)
    carry_out()
    return None


def slow(carry_out: object) -> Answer | None:
    assert callable(carry_out)
    time.sleep(0.5)
    answer: Answer = carry_out()
    return answer


async def asked(ledger: SharedLedger, usd: float) -> str:
    handle = await ledger.reserve(usd, 1.0, NOON)
    assert handle is not None
    return handle


@pytest.mark.parametrize("fault", [never_in, in_without_an_answer])
@pytest.mark.parametrize("usd", [0.5, SMALL])
async def test_what_was_refused_by_a_broken_connection_is_not_kept_from_anyone(
    ledger: SharedLedger, clickhouse: Served, fault: Fault, usd: float
) -> None:
    clickhouse.faults.extend([fault] * 2)  # the client tries once more
    with pytest.raises(TransientDependencyError):
        await ledger.reserve(usd, 1.0, NOON)
    assert await ledger.reserve(1.0, 1.0, NOON) is not None


@pytest.mark.parametrize("usd", [0.5, SMALL])
async def test_what_a_cancelled_call_had_set_aside_is_put_back(
    ledger: SharedLedger, clickhouse: Served, usd: float
) -> None:
    clickhouse.faults.append(slow)
    call = asyncio.create_task(ledger.reserve(usd, 1.0, NOON))
    await asyncio.sleep(0.2)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    await ledger.close()
    assert await as_others_see_it(clickhouse) == NOTHING


@pytest.mark.parametrize("usd", [0.5, SMALL])
@pytest.mark.parametrize("fails", ["refused", "cancelled"])
async def test_what_could_not_be_settled_is_settled_later(
    ledger: SharedLedger, clickhouse: Served, usd: float, fails: str
) -> None:
    handle, _ = await asked(ledger, usd), await asked(ledger, SMALL)
    clickhouse.faults.extend([never_in] * 2 if fails == "refused" else [slow])
    settling = asyncio.create_task(ledger.settle(handle, 0.001))
    if fails == "cancelled":
        await asyncio.sleep(0.2)
        settling.cancel()
    with suppress(TransientDependencyError, asyncio.CancelledError):
        await settling
        pytest.fail("it was settled")
    assert await ledger.spending(NOON) == pytest.approx((0.001, SMALL, 0.001))
    # Others see the second sum's pot as a whole.
    assert await as_others_see_it(clickhouse) == pytest.approx((0.001, 0.002, 0.001))


async def test_a_pot_that_was_put_back_without_an_answer_is_not_spent_from(
    ledger: SharedLedger, clickhouse: Served
) -> None:
    await ledger.settle(await asked(ledger, SMALL), SMALL)
    clickhouse.faults.extend([in_without_an_answer] * 2)
    with pytest.raises(TransientDependencyError):
        await asked(ledger, SMALL)  # more than is left of the pot
    left = await asked(ledger, 0.0004)
    await ledger.settle(left, 0.0004)
    await ledger.close()
    assert await as_others_see_it(clickhouse) == pytest.approx((0.0019, 0.0, 0.0019))


async def test_the_end_settles_what_it_can_and_charges_what_is_under_way(
    ledger: SharedLedger, clickhouse: Served
) -> None:
    first, _, large = (
        await asked(ledger, SMALL),
        await asked(ledger, SMALL),
        await asked(ledger, 0.5),
    )
    await ledger.settle(first, 0.001)
    await ledger.close()
    # A sum of its own is another process's to settle.
    assert await as_others_see_it(clickhouse) == pytest.approx((0.0025, 0.5, 0.0025))
    with pytest.raises(TransientDependencyError):
        await ledger.settle(large, 0.1)


async def test_an_end_without_clickhouse_raises_nothing(
    ledger: SharedLedger, clickhouse: Served
) -> None:
    await asked(ledger, SMALL)
    clickhouse.faults.extend([never_in] * 2)
    await ledger.close()
    await ledger.close()


async def test_the_money_of_a_batch_is_settled_by_another_process_however_little_it_is(
    ledger: SharedLedger, clickhouse: Served
) -> None:
    clock = StoppedClock(NOON)
    small = await Budget(ledger, 1.0, None, clock).reserve(0.0001)
    await ledger.close()
    later = await another(clickhouse)
    budget = Budget(later, 1.0, None, clock)
    await budget.settle(small, 0.00005)
    # As after an upgrade: set aside in a file.
    await budget.settle("0123456789abcdef0123456789abcdef", 0.5)
    assert await later.spending(NOON) == Spending(0.00005, 0.0, 0.00005)
    await later.close()


async def test_what_is_charged_beyond_the_budget_lends_nothing_to_others(
    ledger: SharedLedger,
) -> None:
    """A batch whose reservation was lost is charged all the same."""
    budget = Budget(ledger, 1.0, None, StoppedClock(NOON))
    assert await budget.reserve(1.0) is not None
    await budget.settle(None, 0.001)
    with pytest.raises(Postponed):
        async with budget.charge(0.0001):
            pass


async def test_a_user_who_may_only_read_is_told_what_to_do(
    ledger: SharedLedger, clickhouse: Served
) -> None:
    refused = 500, b"Code: 164. DB::Exception: READONLY", {"X-ClickHouse-Exception-Code": "164"}
    clickhouse.faults.append(lambda _: refused)
    told = r"writing spend failed: .* may only read; .* unless judge\.openai\.spend_file is set"
    with pytest.raises(PermanentDependencyError, match=told):
        await ledger.reserve(0.5, 1.0, NOON)


async def test_the_last_hour_reaches_into_the_day_before(ledger: SharedLedger) -> None:
    midnight = NOON.replace(hour=0)
    handle = await ledger.reserve(0.5, 1.0, midnight - timedelta(minutes=10))
    assert handle is not None
    await ledger.settle(handle, 0.25)
    assert await ledger.spending(midnight + timedelta(minutes=10)) == Spending(0.0, 0.0, 0.25)


async def test_a_hundred_calls_without_money_ask_clickhouse_a_few_times(
    ledger: SharedLedger, clickhouse: Served
) -> None:
    """Most is set aside by somebody who died: it may come back any moment, so they ask again."""
    assert await ledger.reserve(0.9995, 1.0, NOON) is not None
    budget = Budget(ledger, 1.0, None, StoppedClock(NOON))
    clickhouse.seen.clear()
    for _ in range(100):
        with pytest.raises(Postponed):
            async with budget.charge(0.001):
                pass
    assert len(clickhouse.seen) < 20
