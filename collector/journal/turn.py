"""The turn to do what only one of the processes that share a journal may do at a time.

Kafka's own assignment decides: a topic without records has one partition, and it is the turn of
the member that owns it. A member that stops hands it over once its work has ended; one that dies
is missed after `session_seconds`. One that is cut off from the brokers learns of it when it
reaches them again: until then two may work, so the work has to bear being done twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from pydantic import SecretStr

from collector.config import KafkaJournalConfig
from collector.journal.kafka import record_of
from collector.kafka.client import Brokers
from collector.kafka.consumer import KafkaConsumer
from collector.ports import LetGo
from collector.timing import Clock

_TURN = 0
"""The partition that decides; a topic made by somebody else may have more."""


class Member(Protocol):
    """One of those who want the turn."""

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that are its own and that it need not let go of."""
        ...

    async def owning(self, partition: int) -> None:
        """Return once a partition is among the owned."""
        ...

    def before_letting_go(self, finish: LetGo) -> None:
        """See `collector.ports.Consumer.before_letting_go`."""
        ...


async def join(
    config: KafkaJournalConfig, password: SecretStr | None, name: str, clock: Clock
) -> KafkaConsumer:
    """Become one of those who want the turn called `name`.

    Raises:
        DependencyError: the brokers cannot be reached, or say no.
    """
    brokers = Brokers(config.brokers, config.security, password)
    topic = config.topic_prefix + name
    await asyncio.to_thread(
        brokers.make_topics, [topic], partitions=1, replication=config.replication, settings={}
    )
    return await KafkaConsumer.join(
        brokers,
        topic,
        f"{topic}.groundwatch",
        record_of,
        session_seconds=config.session_seconds,
        rebalance_seconds=config.rebalance_seconds,
        clock=clock,
    )


class Turns:
    """Works whenever it is a member's turn.

    Args:
        member: of those who want it.
        work: works until its event is set.
    """

    def __init__(
        self, member: Member, work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]
    ) -> None:
        self._member = member
        self._work = work
        self._over = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        member.before_letting_go(self._let_go)

    async def run(self, stop: asyncio.Event) -> None:
        """Work at each turn until `stop` is set."""
        while not stop.is_set():
            if _TURN in self._member.owned:
                await self._work_once(stop)
            else:
                await _first(stop.wait(), self._member.owning(_TURN))

    async def _work_once(self, stop: asyncio.Event) -> None:
        over = self._over = asyncio.Event()
        self._idle.clear()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._work(over))
                await _first(stop.wait(), over.wait())
                over.set()
        finally:
            self._idle.set()

    async def _let_go(self, partitions: set[int]) -> None:
        if _TURN in partitions:
            self._over.set()
            await self._idle.wait()


async def _first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return once one of them has ended, and end the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
