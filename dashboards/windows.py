"""Windows of time as people write them: `24h`, `7d`, `2026-W48`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Window(NamedTuple):
    """From `since` (inclusive) to `until` (exclusive), both UTC."""

    since: datetime
    until: datetime


def last(text: str, now: datetime) -> Window:
    """Return the window that ends now, e.g. for `90m`, `24h`, `7d`, `2w`.

    Raises:
        ValueError: the text is not a number and a unit.
    """
    match = re.fullmatch(r"(\d{1,5})([mhdw])", text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a span of time; write for example 90m, 24h, 7d or 2w")
    return Window(now - timedelta(**{_UNITS[match[2]]: int(match[1])}), now)


def week(text: str) -> Window:
    """Return an ISO week, Monday to Monday UTC, e.g. for `2026-W48`.

    Raises:
        ValueError: there is no such week.
    """
    match = re.fullmatch(r"(\d{4})-W(\d{2})", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a week; write for example 2026-W48")
    try:
        monday = date.fromisocalendar(int(match[1]), int(match[2]), 1)
    except ValueError as err:
        raise ValueError(f"{text!r}: there is no such week") from err
    since = datetime(monday.year, monday.month, monday.day, tzinfo=UTC)
    return Window(since, since + timedelta(weeks=1))
