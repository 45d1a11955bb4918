"""What the review keeps, for how long, and what it works out behind."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from collector.errors import TransientDependencyError
from dashboards.review.memory import FRESH, PAUSE, SETTLED, Memory, freshness, window_key
from dashboards.windows import last

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Counted:
    """Works out 1, then 2, and so on; each takes so many seconds of the clock."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.time = 0.0
        self.times = 0
        self.under_way = 0
        self.most_under_way = 0
        self.seconds = seconds
        self.failing = False
        self.memory = Memory(lambda: self.time)

    async def __call__(self) -> int:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.time += self.seconds
        if self.failing:
            raise TransientDependencyError("store: busy")
        self.times += 1
        return self.times

    async def get(self, key: str = "a", oldest: float = FRESH) -> int:
        found: int = (await self.memory.get(key, self, oldest=oldest)).value
        return found

    async def settle(self) -> None:
        while rest := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(rest)


async def test_an_answer_is_kept_for_its_time_and_no_longer() -> None:
    work = Counted()
    assert [await work.get(), await work.get(), await work.get("b")] == [1, 1, 2]
    work.time = FRESH
    assert await work.get() == 3


async def test_what_is_old_is_given_out_once_more_and_renewed_behind() -> None:
    work = Counted()
    await work.get(oldest=SETTLED)
    work.time = FRESH
    assert await work.get(oldest=SETTLED) == 1
    await work.settle()
    assert await work.get(oldest=SETTLED) == 2
    work.time += SETTLED
    assert await work.get(oldest=SETTLED) == 3


async def test_one_thing_at_once_is_renewed_and_what_took_long_rests() -> None:
    work = Counted(seconds=FRESH)
    for key in "abc":
        await work.get(key, SETTLED)
    work.time += (PAUSE - 3) * FRESH  # of the first of them 20 times of what it took are over
    assert [await work.get(key, SETTLED) for key in "abc"] == [1, 2, 3]
    await work.settle()
    assert (work.times, work.most_under_way) == (4, 1)
    work.time += PAUSE * FRESH
    for key in "abc":
        await work.get(key, SETTLED)
    await work.settle()
    assert (work.times, work.most_under_way) == (7, 1)


async def test_those_who_ask_at_once_wait_for_one_answer() -> None:
    work = Counted()
    assert list(await asyncio.gather(work.get(), work.get())) == [1, 1]


async def test_what_cannot_be_renewed_stays_until_it_is_too_old() -> None:
    work = Counted()
    await work.get(oldest=SETTLED)
    work.failing, work.time = True, FRESH
    assert await work.get(oldest=SETTLED) == 1
    await work.settle()
    assert await work.get(oldest=SETTLED) == 1
    await work.settle()
    work.failing = False
    assert await work.get(oldest=SETTLED) == 1


def test_only_windows_that_end_now_are_the_same_a_moment_later() -> None:
    later = NOW + timedelta(seconds=5)
    assert window_key(last("7d", NOW), NOW) == window_key(last("7d", later), later)
    assert window_key(last("7d", NOW), NOW) != window_key(last("6d", NOW), NOW)
    ended = NOW - timedelta(hours=2)
    moved = ended + timedelta(seconds=5)
    assert window_key(last("7d", ended), NOW) != window_key(last("7d", moved), NOW)


def test_a_week_that_is_over_is_good_for_longer() -> None:
    assert freshness(last("7d", NOW), NOW) == FRESH
    assert freshness(last("7d", NOW - timedelta(days=2)), NOW) == SETTLED
