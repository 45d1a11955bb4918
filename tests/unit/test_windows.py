"""Windows of time as they are asked for on the command line, in the API and on the page."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboards.windows import chosen, default_span

NOW = datetime(2026, 11, 25, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("asked", "since", "until"),
    [
        ({}, NOW - timedelta(days=7), NOW),
        ({"since": "90m"}, NOW - timedelta(minutes=90), NOW),
        ({"since": "2w"}, NOW - timedelta(days=14), NOW),
        ({"since": "2026-11-20T00:00:00+01:00"}, datetime(2026, 11, 19, 23, tzinfo=UTC), NOW),
        (
            {"since": "24h", "until": "2026-11-20T00:00:00Z"},
            datetime(2026, 11, 19, tzinfo=UTC),
            datetime(2026, 11, 20, tzinfo=UTC),
        ),
        # The week of 2026-11-23, a Monday.
        (
            {"week": "2026-W48"},
            datetime(2026, 11, 23, tzinfo=UTC),
            datetime(2026, 11, 30, tzinfo=UTC),
        ),
    ],
)
def test_what_is_asked_for_is_the_window(
    asked: dict[str, str], since: datetime, until: datetime
) -> None:
    assert chosen(NOW, "7d", **asked) == (since, until)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"since": "7x"}, "since: '7x' is no ISO time"),
        ({"since": "0d"}, "since: '0d' is not a span"),
        ({"since": "99999w", "until": "0500-01-01T00:00:00Z"}, "since: '99999w' reaches back"),
        ({"since": "2026-11-20T00:00:00"}, "since: the zone is missing"),
        ({"until": "tomorrow"}, "until: 'tomorrow' is no ISO time"),
        ({"since": "2026-11-20T00:00:00Z", "until": "2026-11-20T00:00:00Z"}, "since: must be"),
        ({"week": "2026-48"}, "week: '2026-48' is not a week"),
        ({"week": "2026-W54"}, "week: '2026-W54': there is no such week"),
        ({"since": "99999d"}, "since: lies before the year 1970"),
        ({"week": "0001-W01"}, "week: lies before the year 1970"),
        ({"until": "9999-12-31T23:59:59-12:00"}, "until: '9999-12-31T23:59:59-12:00' lies outside"),
        (
            {"since": "0001-01-01T00:00:00+12:00"},
            "since: '0001-01-01T00:00:00.12:00' lies outside",
        ),
        ({"until": 500 * "7"}, "until: '7777777777777777777777777777777777777777…' is no ISO time"),
        ({"week": "9999-W52"}, "week: '9999-W52': there is no such week"),
        ({"week": "2026-W48", "since": "7d"}, "week: stands for both ends"),
    ],
)
def test_a_window_that_makes_no_sense_is_named(asked: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        chosen(NOW, "7d", **asked)


def test_a_report_without_a_window_covers_a_day_or_a_week() -> None:
    names = ("estimates", "doctor", "review", "signals", "candidates")
    assert [default_span(name) for name in names] == ["24h", "24h", "7d", "7d", "7d"]
