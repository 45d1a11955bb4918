"""The week's hand-over: what the review of the last week is about, sent once to those who do it.

It carries counts, reasons, causes and links; questions of users only where that is asked for. It is
sent by one process of several, and what was sent is kept in the store, so that no restart sends it
again. A receiver that is down is tried again for four hours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import structlog

from collector.config import Resolved, ReviewConfig
from collector.config.review import WEEKDAYS
from collector.errors import DependencyError
from collector.plain import plain
from collector.timing import Clock
from dashboards.reports import Reports
from dashboards.review.desk import Desk
from dashboards.review.render import environment
from dashboards.windows import iso_week
from sinks.messages import Message, post_webhook, send_mail

PATIENCE = timedelta(hours=4)
MOST_LISTED = 10
_SECONDS_BETWEEN = 60.0
_STATE = "hand-over of the review"
_QUESTION_CHARACTERS = 200
# What chats read as mentions, links with another text, and tags of their own.
_TAME = str.maketrans({"<": "‹", ">": "›", "[": "(", "]": ")", "@": "＠", "`": "'", "|": "¦"})

Sender = Callable[[Message], Coroutine[Any, Any, None]]
log = structlog.get_logger()


class Sent(msgspec.Struct, frozen=True):
    """Which week was handed over last, and to whom."""

    week: str
    to: list[str]


class HandOver:
    """Sends the hand-over when it is due. One at a time for each store.

    Args:
        reports: where the week is read, and what was sent is kept.
        resolved: the configuration, with `review.handover.at`.
        clock: the time.
    """

    def __init__(self, reports: Reports, resolved: Resolved, clock: Clock) -> None:
        self._reports = reports
        self._resolved = resolved
        self._senders = senders_of(resolved)
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        while not stop.is_set():
            try:
                await self.turn()
            except DependencyError as err:
                log.warning("handover_waits", error=type(err).__name__)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _SECONDS_BETWEEN)

    async def turn(self) -> None:
        """Send what is due to those who have not got it yet.

        Raises:
            DependencyError: the store does not answer.
        """
        config = self._resolved.config.review
        if config.handover.at is None:
            return
        at = due(self._clock.now(), config.handover.at, config.handover.time_zone)
        if at is None:
            return
        week = week_before(at.astimezone(ZoneInfo(config.handover.time_zone)).date())
        kept = await self._reports.store.state(_STATE)
        sent = Sent(week, []) if kept is None else msgspec.json.decode(kept, type=Sent)
        done = sent.to if sent.week == week else []
        owed = {to: send for to, send in self._senders.items() if to not in done}
        if not owed:
            return
        message = await written(self._reports, config, week)
        for to, send in owed.items():
            try:
                await send(message)
            except DependencyError as err:
                log.warning("handover_failed", to=to, week=week, error=str(err))
                continue
            done = [*done, to]
            version = int(at.timestamp() * 1e6) + len(done)
            body = msgspec.json.encode(Sent(week, done))
            await self._reports.store.save_state(_STATE, version, body)
            log.info("handed_over", to=to, week=week)


async def written(reports: Reports, config: ReviewConfig, week: str) -> Message:
    """Read a week, such as `2026-W48`, and return its hand-over.

    Raises:
        DependencyError: the store does not answer.
    """
    window = iso_week(week)
    state = await Desk(reports, config).week(window)
    review = await reports.review(window, limit=MOST_LISTED)
    return message_of(week, state, review, config.public_url or "", texts=config.handover.texts)


def senders_of(resolved: Resolved) -> dict[str, Sender]:
    """Return what sends a message, by the name of the receiver."""
    config, secrets = resolved.config.review.handover, resolved.secrets
    found: dict[str, Sender] = {}
    if secrets.webhook_url is not None:
        found["webhook"] = partial(post_webhook, secrets.webhook_url)
    if config.mail is not None:
        found["mail"] = partial(send_mail, config.mail, secrets.mail_password)
    return found


def due(now: datetime, at: str, zone: str) -> datetime | None:
    """Return when the hand-over was due, UTC; None while it is not, or no longer.

    Args:
        now: the time.
        at: such as `mon 08:00`.
        zone: name of the time zone that is meant.
    """
    day, clock = at.split(" ")
    today = now.astimezone(ZoneInfo(zone)).date()
    ago = (today.weekday() - WEEKDAYS.index(day)) % 7
    for back in (ago, ago + 7):
        local = datetime.combine(
            today - timedelta(days=back), time.fromisoformat(clock), ZoneInfo(zone)
        )
        instant = local.astimezone(UTC)
        if instant <= now:
            return instant if now - instant < PATIENCE else None
    return None


def week_before(day: date) -> str:
    """Return the ISO week that ended last on a day, such as `2026-W48`."""
    return f"{day - timedelta(weeks=1):%G-W%V}"


def message_of(
    week: str,
    state: Mapping[str, Any],
    review: Mapping[str, Any],
    url: str,
    *,
    texts: bool,
) -> Message:
    """Return the hand-over of a week.

    Args:
        week: such as `2026-W48`.
        state: of the week, as returned by `Desk.week`.
        review: its worst conversations, as returned by `Reports.review`.
        url: where people open the page.
        texts: whether questions of users are in it.
    """
    shown = review["conversations"][:MOST_LISTED]
    subject = f"Weekly review {week}: {state['progress']['all']} conversations to look at"
    text = (
        environment()
        .get_template("handover.txt.j2")
        .render(week=week, state=state, shown=shown, url=url, texts=texts, tame=tame)
    )
    return Message(f"review.{week}", subject, text)


def tame(text: str, most: int = _QUESTION_CHARACTERS) -> str:
    """Return text as one short line that no chat takes for a mention, a link or a tag."""
    line = plain(text).translate(_TAME).replace("://", "∶//")
    return line if len(line) <= most else f"{line[:most]}…"
