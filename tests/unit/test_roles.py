"""Which roles a process may have by itself, and what is said where it may not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from collector.agent.parts import Parts
from collector.agent.roles import ALL, check_roles, roles_of
from collector.config import Config, Resolved, Secrets
from collector.errors import ConfigError, UsageError
from collector.journal.turn import Turns
from collector.ports import LetGo

KAFKA = {"kafka": {"brokers": ["kafka-1.example.com:9092"]}}
ROOT = Path(__file__).parents[2]
SERVER = {"url": "https://groundwatch@clickhouse.example.com:8443/groundwatch"}


def test_roles_are_named_in_any_order_and_once() -> None:
    assert roles_of("judge, receiver,judge") == {"receiver", "judge"}


@pytest.mark.parametrize(
    ("words", "said"), [("judge,jugde", "jugde is no role"), (" ,", "nothing")]
)
def test_a_name_that_is_no_role_is_told_with_those_that_are(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        roles_of(words)
    assert "receiver, processor, judge, reporter, review" in str(caught.value)


def test_one_process_with_all_roles_needs_nothing_to_share() -> None:
    check_roles(ALL, Config())


@pytest.mark.parametrize(
    ("sections", "missing"),
    [
        ({}, ["journal.kafka", "store.url"]),
        ({"journal": KAFKA}, ["store.url"]),
        ({"store": SERVER}, ["journal.kafka"]),
    ],
)
def test_some_roles_need_a_journal_and_a_store_that_can_be_shared(
    sections: dict[str, object], missing: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_roles(roles_of("receiver,processor"), Config.model_validate(sections))
    assert [problem.partition(":")[0] for problem in caught.value.problems] == missing
    check_roles(
        roles_of("receiver,processor"), Config.model_validate({"journal": KAFKA, "store": SERVER})
    )


def test_the_command_names_what_it_lacks_and_ends_with_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "collector", "run", "--roles", "judge"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "journal.kafka: needed" in done.stderr
    assert "store.url: needed" in done.stderr
    assert not list(tmp_path.iterdir()), "nothing is made"


async def test_two_processes_on_kafka_do_not_share_a_data_folder(tmp_path: Path) -> None:
    sections = {"data_dir": tmp_path / "data", "journal": KAFKA, "store": SERVER}
    resolved = Resolved(config=Config.model_validate(sections), secrets=Secrets())
    async with AsyncExitStack() as stack:
        Parts(resolved, roles_of("judge"), stack)
        async with AsyncExitStack() as other:
            with pytest.raises(ConfigError, match=r"data_dir: .* a folder of its own"):
                Parts(resolved, roles_of("processor"), other)
    async with AsyncExitStack() as later:
        Parts(resolved, roles_of("processor"), later)


class Member:
    """Owns what a test says."""

    def __init__(self) -> None:
        self.owned: frozenset[int] = frozenset()
        self._changed = asyncio.Event()

    async def owning(self, partition: int) -> None:
        while partition not in self.owned:
            self._changed.clear()
            await self._changed.wait()

    def before_letting_go(self, finish: LetGo) -> None:
        self._finish = finish

    def gain(self, *partitions: int) -> None:
        self.owned |= set(partitions)
        self._changed.set()

    async def lose(self, *partitions: int) -> None:
        self.owned -= set(partitions)
        await self._finish(set(partitions))


class Work:
    """Takes a moment to end, and knows whether it is at work."""

    def __init__(self) -> None:
        self.at_work = asyncio.Event()
        self.terms = 0

    async def __call__(self, over: asyncio.Event) -> None:
        self.terms += 1
        self.at_work.set()
        await over.wait()
        await asyncio.sleep(0.01)
        self.at_work.clear()


async def test_work_is_done_at_ones_turn_only_and_has_ended_when_the_turn_is_let_go() -> None:
    member, work, stop = Member(), Work(), asyncio.Event()
    running = asyncio.create_task(Turns(member, work).run(stop))
    async with asyncio.timeout(10):
        member.gain(1)  # of a topic that somebody made with more partitions than one
        member.gain(0)
        await work.at_work.wait()
        await member.lose(1)
        assert work.at_work.is_set()
        await member.lose(0)
        assert not work.at_work.is_set()
        member.gain(0)
        await work.at_work.wait()
        stop.set()
        await running
    assert not work.at_work.is_set()
    assert work.terms == 2


async def test_a_failure_of_the_work_is_not_swallowed() -> None:
    async def fails(_: asyncio.Event) -> None:
        raise ConnectionError

    member = Member()
    member.gain(0)
    with pytest.raises(ExceptionGroup) as caught:
        await Turns(member, fails).run(asyncio.Event())
    assert caught.group_contains(ConnectionError)
