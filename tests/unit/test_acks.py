"""Only what is done is committed."""

import pytest

from collector.acks import Acks
from collector.ports import Position


def at(offset: int, partition: int = 0) -> Position:
    return Position(partition, offset)


def test_nothing_is_committable_before_anything_is_done() -> None:
    acks = Acks()
    acks.read(at(5))
    assert acks.committable() == {0: 5}
    acks.committed({0: 5})
    assert acks.committable() == {}


def test_the_watermark_stops_at_the_first_gap() -> None:
    acks = Acks()
    for offset in (1, 2, 3):
        acks.read(at(offset))
    acks.release([at(1), at(3)])
    assert acks.committable() == {0: 2}
    acks.release([at(2)])
    assert acks.committable() == {0: 4}


def test_a_record_is_done_once_all_that_came_of_it_is_done() -> None:
    acks = Acks()
    acks.read(at(1))
    acks.hold(at(1))
    acks.hold(at(1))
    acks.release([at(1), at(1)])
    assert acks.committable() == {0: 1}
    acks.release([at(1)])
    assert acks.committable() == {0: 2}


def test_partitions_move_on_their_own() -> None:
    acks = Acks()
    acks.read(at(1, partition=0))
    acks.read(at(7, partition=1))
    acks.release([at(7, partition=1)])
    assert acks.committable() == {0: 1, 1: 8}


def test_an_offset_is_read_once() -> None:
    acks = Acks()
    acks.read(at(4))
    with pytest.raises(ValueError, match="read before"):
        acks.read(at(4))
