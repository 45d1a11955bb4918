"""Three processors, two judges and all other roles as processes; each test is one fault.

Spans arrive in any order while the fault lasts. Afterwards a reader sees each request once and
whole, each that was drawn is judged once, the accounting adds up and nothing is left to do.

The sizes suit a test; `make test-scale` makes them those of a bad day.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from glob import glob
from itertools import cycle
from typing import NamedTuple
from zlib import crc32

import msgspec
import pytest

from collector.model import Span
from tests.bench.stream import SPANS_A_RECORD, Stream, stream
from tests.fault.fleet import Fleet
from tests.kafka_broker import a_broker

HOUR_NS = 3_600_000_000_000
SCALE = "GROUNDWATCH_TEST_SPANS"


class Size(NamedTuple):
    """Of one fault: spans sent, over how long, and for how long something is away."""

    spans: int
    feeding_seconds: float
    store_away_seconds: float
    model_away_seconds: float
    poison_every: int
    patience_seconds: float


SIZE = (
    Size(int(os.environ[SCALE]), 120, 60, 600, 1000, 7200)
    if SCALE in os.environ
    else Size(2_000, 4, 4, 6, 50, 240)
)
pytestmark = pytest.mark.timeout(3 * SIZE.patience_seconds)

# Where the member that led a consumer group goes, the small broker may tell all who are left that
# another leads; they ask again for ever, and nobody reads.
GROUP_CHANGES = pytest.mark.apache_kafka


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with (
        a_broker(folder / "broker") as broker,
        Fleet(folder, broker, SIZE.patience_seconds) as fleet,
    ):
        yield fleet


@pytest.fixture
def spans(request: pytest.FixtureRequest) -> Stream:
    return stream(SIZE.spans, seed=crc32(request.node.name.encode()))


@pytest.mark.parametrize(
    "name",
    [
        "receiver",
        pytest.param("processor-1", marks=GROUP_CHANGES),
        pytest.param("judge-1", marks=GROUP_CHANGES),
        pytest.param("reporter", marks=GROUP_CHANGES),
        "review",
    ],
)
def test_a_process_of_any_role_is_killed(fleet: Fleet, spans: Stream, name: str) -> None:
    with fleet.fed(spans, SIZE.feeding_seconds):
        time.sleep(SIZE.feeding_seconds / 3)
        fleet.restart(name, away_seconds=1)
    fleet.check_all_is_there_once()


@pytest.mark.apache_kafka
def test_the_broker_is_killed_and_comes_back(fleet: Fleet, spans: Stream) -> None:
    with fleet.fed(spans, SIZE.feeding_seconds):
        time.sleep(SIZE.feeding_seconds / 3)
        fleet.broker.kill()
        time.sleep(SIZE.feeding_seconds / 3)
        fleet.broker.start()
    fleet.check_all_is_there_once()


@GROUP_CHANGES
def test_partitions_move_in_mid_trace(fleet: Fleet, spans: Stream) -> None:
    with fleet.fed(spans, SIZE.feeding_seconds):
        time.sleep(SIZE.feeding_seconds / 4)
        fleet.add("processor-more")
        fleet.remove("processor-2")
    fleet.add("processor-2")
    fleet.remove("processor-more")
    fleet.check_all_is_there_once()


def test_clickhouse_refuses_then_delays(fleet: Fleet, spans: Stream) -> None:
    with fleet.fed(spans, SIZE.feeding_seconds):
        time.sleep(SIZE.feeding_seconds / 4)
        fleet.store.refuse()
        time.sleep(SIZE.store_away_seconds)
        fleet.store.delay_seconds = 0.5
        fleet.store.accept()
        time.sleep(SIZE.store_away_seconds)
        fleet.store.delay_seconds = 0.0
    fleet.check_all_is_there_once()


def test_the_judging_model_is_away(fleet: Fleet, spans: Stream) -> None:
    fleet.model.refuse()
    with fleet.fed(spans, SIZE.feeding_seconds):
        time.sleep(SIZE.model_away_seconds)
    fleet.model.accept()
    fleet.check_all_is_there_once()


def test_poison_is_set_aside_and_costs_nothing_else(fleet: Fleet, spans: Stream) -> None:
    with fleet.fed(spans, SIZE.feeding_seconds, SIZE.poison_every):
        pass
    fleet.check_all_is_there_once()
    assert len(fleet.poison) >= SIZE.spans // SPANS_A_RECORD // 2 // SIZE.poison_every > 0
    assert sorted(fleet.dead_letters()) == sorted(fleet.poison)


def test_a_processor_is_slow(fleet: Fleet, spans: Stream) -> None:
    with fleet.fed(spans, SIZE.feeding_seconds):
        until = time.monotonic() + SIZE.feeding_seconds
        while time.monotonic() < until:
            fleet.freeze("processor-1", seconds=0.9)
            time.sleep(0.1)
    fleet.check_all_is_there_once()


@GROUP_CHANGES
def test_a_processor_falls_silent_and_goes_on_when_its_share_is_anothers(
    fleet: Fleet, spans: Stream
) -> None:
    with fleet.fed(spans, SIZE.feeding_seconds):
        time.sleep(SIZE.feeding_seconds / 4)
        fleet.freeze("processor-1", seconds=2 * fleet.broker.session_seconds)
    fleet.check_all_is_there_once()


@GROUP_CHANGES
@pytest.mark.faketime
def test_clocks_of_services_and_processes_are_an_hour_apart(fleet: Fleet) -> None:
    clocks = {"processor-early": "-1h", "processor-late": "+1h", "judge-late": "+1h"}
    for name, offset in clocks.items():
        fleet.add(name, clock(offset))
    spans = stream(SIZE.spans, seed=1, change=on_hosts_with_other_clocks)
    with fleet.fed(spans, SIZE.feeding_seconds):
        pass
    fleet.check_all_is_there_once()
    for name in clocks:
        fleet.remove(name)


def on_hosts_with_other_clocks(spans: list[Span]) -> list[Span]:
    """Return the same, every other span from a host an hour ahead or behind."""
    hosts = ("a", 0), ("b", HOUR_NS), ("c", -HOUR_NS)
    return [
        msgspec.structs.replace(
            span,
            resource=span.resource | {"host.name": host},
            start_ns=(span.start_ns or 0) + shift,
            end_ns=(span.end_ns or 0) + shift,
        )
        for span, (host, shift) in zip(spans, cycle(hosts), strict=False)
    ]


def clock(offset: str) -> dict[str, str]:
    """Return the environment of a process whose clock is off."""
    (library,) = glob("/usr/lib/*/faketime/libfaketime.so.1")
    return {"LD_PRELOAD": library, "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
