"""The pace of calls keeps to a stated limit while the share of it that is ours changes."""

from __future__ import annotations

import asyncio

import pytest

from collector.timing import SystemClock
from scorers.judge.limits import Pace

PER_MINUTE = 6000
SMALL, WHOLE = 0.01, 1.0


class Tokens:
    """A pace of 6000 tokens a minute, of which `share` is ours."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.pace = Pace(PER_MINUTE, SystemClock(), lambda: self.share)


async def test_who_waits_with_a_small_share_goes_on_when_it_grows() -> None:
    tokens = Tokens(SMALL)
    await tokens.pace.take(60)  # a minute's worth
    waiting = asyncio.create_task(tokens.pace.take())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    tokens.share = WHOLE
    await asyncio.wait_for(waiting, 30)


async def test_what_is_given_back_is_what_was_taken_though_the_share_grew() -> None:
    tokens = Tokens(SMALL)
    await tokens.pace.take(60)
    tokens.share = WHOLE
    tokens.pace.give_back(60)
    await asyncio.wait_for(tokens.pace.take(), 10)


async def test_what_is_given_back_is_what_was_taken_though_the_share_shrank() -> None:
    tokens = Tokens(WHOLE)
    await tokens.pace.take(6000)
    tokens.share = SMALL
    tokens.pace.give_back(5940)
    # What was used is a minute's worth of the small share.
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(tokens.pace.take(), 0.5)
