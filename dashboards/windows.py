"""Windows of time as people write them: `24h`, `7d`, `2026-W48`, ISO times."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"(\d{1,5})([mhdw])")
_EARLIEST_YEAR = 1970
_A_DAY = ("estimates", "doctor")


class Window(NamedTuple):
    """From `since` (inclusive) to `until` (exclusive), both UTC."""

    since: datetime
    until: datetime


WIDER = ("6h", "24h", "7d", "28d")
"""Windows that are tried, shortest first, where one holds too few judged requests."""


def wider_than(window: Window) -> list[tuple[str, Window]]:
    """Return the windows of `WIDER` that are longer than this one and end with it, by name."""
    found = [(name, last(name, window.until)) for name in WIDER]
    return [(name, wider) for name, wider in found if wider.since < window.since]


def default_span(report: str) -> str:
    """Return the span of time that a report covers where none is asked for."""
    return "24h" if report in _A_DAY else "7d"


def chosen(
    now: datetime,
    default: str,
    *,
    since: str | None = None,
    until: str | None = None,
    week: str | None = None,
) -> Window:
    """Return the window that is asked for.

    Args:
        now: where it ends without `until`.
        default: span of time where neither `since` nor `week` is given.
        since: a span of time before the end, or an ISO time with a zone.
        until: an ISO time with a zone.
        week: an ISO week instead of the others.

    Raises:
        ValueError: starting with the name of the argument at fault.
    """
    if week is not None:
        if since is not None or until is not None:
            raise ValueError("week: stands for both ends; give it without since and until")
        return _in_range("week", iso_week(week))
    end = now if until is None else _instant("until", until)
    start = default if since is None else since.strip()
    window = last(start, end) if _SPAN.fullmatch(start) else Window(_instant("since", start), end)
    if window.since >= window.until:
        raise ValueError("since: must be before until")
    return _in_range("since", window)


def last(text: str, now: datetime) -> Window:
    """Return the window that ends now, e.g. for `90m`, `24h`, `7d`, `2w`.

    Raises:
        ValueError: the text is not a number and a unit, or reaches back too far.
    """
    match = _SPAN.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(
            f"since: {_quoted(text)} is not a span of time; write for example 90m, 24h, 7d or 2w"
        )
    try:
        return Window(now - timedelta(**{_UNITS[match[2]]: int(match[1])}), now)
    except OverflowError as err:
        raise ValueError(f"since: {_quoted(text)} reaches back before the year 1") from err


def iso_week(text: str) -> Window:
    """Return an ISO week, Monday to Monday UTC, e.g. for `2026-W48`.

    Raises:
        ValueError: there is no such week.
    """
    match = re.fullmatch(r"(\d{4})-W(\d{2})", text.strip())
    if match is None:
        raise ValueError(f"week: {_quoted(text)} is not a week; write for example 2026-W48")
    try:
        monday = date.fromisocalendar(int(match[1]), int(match[2]), 1)
        since = datetime(monday.year, monday.month, monday.day, tzinfo=UTC)
        return Window(since, since + timedelta(weeks=1))
    except (ValueError, OverflowError) as err:
        raise ValueError(f"week: {_quoted(text)}: there is no such week") from err


def _in_range(name: str, window: Window) -> Window:
    """Return the window, if the store's times reach back to it and to wider ones."""
    if window.since.year < _EARLIEST_YEAR:
        raise ValueError(f"{name}: lies before the year {_EARLIEST_YEAR}")
    return window


def _quoted(text: str) -> str:
    """Return what was asked for as an error names it: short, however long it is."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def _instant(name: str, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as err:
        span = " nor a span of time such as 24h or 7d" if name == "since" else ""
        raise ValueError(
            f"{name}: {_quoted(text)} is no ISO time such as 2026-11-04T12:00:00Z{span}"
        ) from err
    if instant.tzinfo is None:
        raise ValueError(f"{name}: the zone is missing; end with Z")
    try:
        return instant.astimezone(UTC)
    except OverflowError as err:
        raise ValueError(f"{name}: {_quoted(text)} lies outside the years 1 to 9999") from err
