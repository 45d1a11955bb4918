"""`groundwatch demo --incident`: a release whose index has lost the pages of one segment."""

from __future__ import annotations

import asyncio

from collector.demo.assistant import Assistant
from collector.demo.traffic import play, scenario

SEGMENT = "comparison"
VERSION = "2026.4"
_ROUNDS = 4
_TURNS_PER_SECOND = 25


async def released() -> Assistant:
    """Return the assistant of the bad release. It goes on answering, from memory."""
    return await asyncio.to_thread(lambda: Assistant(lost=SEGMENT))


async def hurried(assistant: Assistant, *, otlp_url: str, run_id: str, stop: asyncio.Event) -> int:
    """Ask as much as some hours bring, within half a minute; return the questions asked.

    Args:
        assistant: the bad release.
        otlp_url: address of the agent's OTLP/HTTP port.
        run_id: prefix of the conversation ids.
        stop: ends it early.
    """
    asked = 0
    for number in range(_ROUNDS):
        played = await play(
            scenario(20 + number, run_id=f"{run_id}-{number}"),
            otlp_url=otlp_url,
            turns_per_second=_TURNS_PER_SECOND,
            stop=stop,
            assistant=assistant,
            version=VERSION,
        )
        asked += played.requests
    return asked
