from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from collector.model import Judgement, Signal
from sinks import rows as r
from tests.fakes.store import AT, decision, stored


def judgement(**fields: Any) -> Judgement:
    return Judgement(trace_id="t", scorer="s", fingerprint="f", status="judged", **fields)


def signal(occurred_at: datetime, received_at: datetime = AT) -> Signal:
    return Signal(signal_id="s", kind="copy", occurred_at=occurred_at, received_at=received_at)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("plain", "plain"),
        ("a\x00b", "a\ufffdb"),
        ("half \ud83d", "half \ufffd"),
        ("owl 🦉 é", "owl 🦉 é"),
        (["\x00", 2**70], ["\ufffd", 2**63 - 1]),
        (-(2**70), -(2**63)),
        (float("nan"), None),
        (float("-inf"), None),
        (True, True),
        (b"\x00\xff", b"\x00\xff"),
        (datetime.max.replace(tzinfo=UTC), datetime(2260, 1, 1, tzinfo=UTC)),
        (datetime.min.replace(tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_value_is_made_to_fit_its_column(value: Any, kept: Any) -> None:
    assert r.storable(value) == kept


def test_times_are_utc_and_a_time_without_zone_is_taken_as_utc() -> None:
    berlin = timezone(timedelta(hours=1))
    assert r.parameter(datetime(2026, 11, 4, 13, 0, 0, 5, tzinfo=berlin)) == (
        "2026-11-04 12:00:00.000005"
    )
    assert r.parameter(datetime(2026, 11, 4, 12)) == "2026-11-04 12:00:00.000000"  # noqa: DTZ001
    assert r.parameter([AT, "a\x00"]) == ["2026-11-04 12:00:00.000000", "a\ufffd"]


def test_a_week_starts_on_monday_in_utc() -> None:
    sunday = datetime(2026, 11, 8, 23, 59, 59, tzinfo=UTC)
    assert r.week(sunday) == "2026-11-02"
    assert r.week(sunday + timedelta(seconds=1)) == "2026-11-09"
    tokyo = timezone(timedelta(hours=9))
    assert r.week(datetime(2026, 11, 9, 1, 0, tzinfo=tokyo)) == "2026-11-02"


@pytest.mark.parametrize(
    ("offset", "filed_by_start"),
    [
        (timedelta(0), True),
        (timedelta(days=-700), True),
        (timedelta(days=-800), False),
        (timedelta(hours=20), True),
        (timedelta(days=2), False),
    ],
)
def test_a_trace_is_filed_by_its_start_where_that_is_plausible(
    offset: timedelta, *, filed_by_start: bool
) -> None:
    row = stored("t", started_at=AT + offset, decided=decision(decided_at=AT))
    assert r.filing_time(row) == (AT + offset if filed_by_start else AT)


def test_a_trace_without_a_start_is_filed_by_its_decision() -> None:
    assert r.filing_time(stored("t", started_at=None)) == AT


def test_a_batch_holds_one_week_and_is_bounded_in_rows_and_bytes() -> None:
    items = [(AT + timedelta(weeks=number % 2), number) for number in range(10)]
    by_rows = r.batches(items, lambda _: 1, max_rows=2, max_bytes=1000)
    assert [[value for _, value in rows] for _, rows in by_rows] == [
        [0, 2],
        [4, 6],
        [8],
        [1, 3],
        [5, 7],
        [9],
    ]
    assert len({batch_id for batch_id, _ in by_rows}) == 6
    by_bytes = r.batches(items, lambda _: 400, max_rows=100, max_bytes=1000)
    assert [len(rows) for _, rows in by_bytes] == [3, 2, 3, 2]
    assert r.batches([], lambda _: 1, 1, 1) == []


def test_a_judgement_ranks_by_request_version_then_by_time() -> None:
    later = AT + timedelta(microseconds=1)
    ranked = [
        judgement(request_version=1),
        judgement(request_version=1, judged_at=AT),
        judgement(request_version=1, judged_at=later),
        judgement(request_version=2),
        judgement(request_version=2**64 - 1, judged_at=datetime.max.replace(tzinfo=UTC)),
    ]
    ranks = [r.judgement_rank(row) for row in ranked]
    assert ranks == sorted(set(ranks))
    assert max(ranks) < 2**128


def test_a_signal_ranks_by_when_it_occurred_then_by_when_it_came() -> None:
    second = timedelta(seconds=1)
    ranked = [
        signal(datetime(1969, 1, 1, tzinfo=UTC)),
        signal(AT, AT),
        signal(AT, AT + second),
        signal(AT + second, AT - second),
    ]
    ranks = [r.signal_rank(row) for row in ranked]
    assert ranks == sorted(set(ranks))
    assert min(ranks) >= 0


def test_of_several_rows_of_one_key_the_highest_is_kept_and_the_later_of_equals() -> None:
    rows = [("a", 2, "x"), ("a", 1, "y"), ("b", 1, "z"), ("a", 2, "w")]
    kept = r.newest(rows, lambda row: row[0], lambda row: row[1])
    assert sorted(kept) == [("a", 2, "w"), ("b", 1, "z")]


def test_rows_have_one_value_for_each_column() -> None:
    assert len(r.request_row(stored("t"), AT, "b")) == len(r.REQUEST_COLUMNS)
    assert len(r.telemetry_row(stored("t"), AT, "b")) == len(r.TELEMETRY_COLUMNS)
    assert len(r.judgement_row(judgement(), AT, "b")) == len(r.JUDGEMENT_COLUMNS)
    assert len(r.signal_row(signal(AT), AT, "b")) == len(r.SIGNAL_COLUMNS)
