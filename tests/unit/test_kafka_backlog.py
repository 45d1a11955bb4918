"""What waits in partitions is counted and aged, also where none of it comes."""

from __future__ import annotations

import pytest

from collector.kafka import backlog
from collector.kafka.backlog import Backlog


@pytest.fixture
def owned(monkeypatch: pytest.MonkeyPatch) -> Backlog:
    """The backlog of a member that owns partition 0 and reads on at offset 10."""
    monkeypatch.setattr(backlog, "_ARRIVAL_SECONDS", 0.01)
    owned = Backlog()
    owned.gained(0)
    owned.reads_on(0, 10)
    return owned


async def test_records_that_never_come_get_older(owned: Backlog) -> None:
    assert [owned.count(0, 25, now) for now in (1000.0, 1060.0, 1120.0)] == [15, 15, 15]
    assert await owned.oldest() == 1000.0


async def test_where_some_were_committed_meanwhile_the_rest_is_no_older_than_that(
    owned: Backlog,
) -> None:
    owned.count(0, 25, 1000.0)
    for offset in range(10, 25):
        owned.received(0, offset, 990.0)
    owned.commits(0, 25)
    assert owned.count(0, 30, 1060.0) == 5
    assert await owned.oldest() == 1060.0
    owned.reads_on(0, 30)
    assert owned.count(0, 30, 1120.0) == 0
    assert await owned.oldest() is None


async def test_what_has_come_is_as_old_as_it_says(owned: Backlog) -> None:
    owned.count(0, 25, 1000.0)
    owned.received(0, 10, 940.0)
    owned.received(0, 11, 950.0)
    assert owned.count(0, 25, 1001.0) == 15
    assert await owned.oldest() == 940.0
    owned.commits(0, 11)
    assert await owned.oldest() == 950.0


async def test_a_partition_that_was_anothers_meanwhile_is_counted_from_where_that_one_stopped(
    owned: Backlog,
) -> None:
    owned.received(0, 10, 940.0)
    owned.commits(0, 11)
    owned.dropped(0)
    owned.reads_on(0, 10)
    assert owned.count(0, 25, 1000.0) == 0
    owned.gained(0)
    assert not owned.knows(0)
    assert owned.committed(0) == 0
    owned.reads_on(0, 25)
    assert owned.count(0, 25, 1000.0) == 0


async def test_offsets_that_hold_no_record_do_not_wait(owned: Backlog) -> None:
    owned.received(0, 10, 940.0)
    owned.received(0, 20, 950.0)
    owned.reads_on(0, 25)
    assert owned.count(0, 25, 1000.0) == 2
    owned.commits(0, 21)
    assert owned.count(0, 25, 1000.0) == 0
    assert await owned.oldest() is None


async def test_a_late_commit_undoes_no_later_one(owned: Backlog) -> None:
    owned.commits(0, 20)
    owned.commits(0, 10)
    assert owned.committed(0) == 20


async def test_an_end_seen_before_more_came_takes_none_of_these_away(owned: Backlog) -> None:
    for offset in range(10, 30):
        owned.received(0, offset, 940.0)
    assert owned.count(0, 25, 1000.0) == 20
