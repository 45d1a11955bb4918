"""The hand-over of the week: when it is due, what it says, and that it arrives once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP
from pydantic import SecretStr, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from collector.agent.opening import reports_of
from collector.config import Config, Resolved, ReviewConfig, Secrets
from collector.config.review import MailConfig
from collector.errors import TransientDependencyError
from collector.server import HttpServer
from dashboards.reports import Reports
from dashboards.review.handover import HandOver, due, tame, week_before
from sinks.messages import Message, send_mail
from tests.fakes.reviewed import HOSTILE, a_week

URL = "https://review.example.com"
SECRET = "T000-B000-secret"


class Clock:
    """The Monday after this week, 08:30 in Berlin or a bit later; moved by hand."""

    def __init__(self) -> None:
        today = datetime.now(UTC).replace(hour=7, minute=30, second=0, microsecond=0)
        self.at = today + timedelta(days=7 - today.weekday())

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    folder = tmp_path_factory.mktemp("agent")
    a_week().store(folder)
    loop = asyncio.new_event_loop()
    opening = reports_of(Resolved(config=Config(data_dir=folder), secrets=Secrets()))
    yield loop.run_until_complete(opening.__aenter__())
    loop.run_until_complete(opening.__aexit__(None, None, None))
    loop.close()


class Chat:
    """A chat whose webhook answers with `status` and keeps what it took."""

    def __init__(self) -> None:
        self.status = 200
        self.told: list[dict[str, Any]] = []

    async def take(self, request: Request) -> Response:
        body = await request.json()
        if self.status == 200:
            self.told.append(body)
        return Response(status_code=self.status)


@pytest.fixture
async def chat() -> AsyncIterator[tuple[Chat, SecretStr]]:
    chat = Chat()
    app = Starlette(routes=[Route(f"/hooks/{SECRET}", chat.take, methods=["POST"])])
    server = HttpServer(app, "127.0.0.1:0", "webhook")
    server.start()
    yield chat, SecretStr(f"{server.url}/hooks/{SECRET}")
    await server.stop()


class Mailbox:
    """Keeps mail as it comes."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], EmailMessage]] = []

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append((envelope.rcpt_tos, mail))
        return "250 OK"


@asynccontextmanager
async def post_office() -> AsyncIterator[tuple[Mailbox, int]]:
    """Run a mail server without encryption; yields what it got, and its port."""
    box = Mailbox()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(box, hostname="mail"), "127.0.0.1", 0)
    async with server:
        yield box, server.sockets[0].getsockname()[1]


def resolved(url: SecretStr | None, port: int = 25, *, texts: bool = False) -> Resolved:
    handover = {
        "at": "mon 08:00",
        "time_zone": "Europe/Berlin",
        "webhook_url_env": "HOOK",
        "texts": texts,
        "mail": {
            "host": "127.0.0.1",
            "port": port,
            "security": "none",
            "sender": "groundwatch@example.com",
            "to": ["a@example.com", "b@example.com"],
        },
    }
    review = ReviewConfig.model_validate({"public_url": URL, "handover": handover})
    return Resolved(config=Config(review=review), secrets=Secrets(webhook_url=url))


async def test_it_arrives_once_over_restarts_also_where_a_receiver_was_down(
    reports: Reports, chat: tuple[Chat, SecretStr], capsys: pytest.CaptureFixture[str]
) -> None:
    room, hook = chat
    clock = Clock()
    async with post_office() as (box, port):
        room.status = 503
        for _ in range(2):
            await HandOver(reports, resolved(hook, port), clock).turn()
        assert (len(room.told), len(box.mails)) == (0, 1)
        room.status = 200
        clock.at += timedelta(hours=2)
        for _ in range(2):
            await HandOver(reports, resolved(hook, port), clock).turn()
        assert (len(room.told), len(box.mails)) == (1, 1)
    logged = capsys.readouterr().out
    assert "handover_failed" in logged
    assert SECRET not in logged

    week = week_before(clock.at.date())
    (told,) = room.told
    assert list(told) == ["text"]
    lines = told["text"].splitlines()
    assert lines[0].startswith(f"Weekly review {week}, ")
    assert lines[-1] == f"All of them: {URL}/?week={week}"
    assert "- Review: 0 of 20 conversations done" in lines
    worst = next(n for n, line in enumerate(lines) if line.startswith("1. "))
    assert lines[worst].startswith("1. thumbs down; a claim contradicts the documents")
    assert lines[worst + 1].strip().startswith(f"{URL}/conversation/sso?week={week}&turn=")
    for text in ("Is SSO included", "SSO is", "wrong price", "How many seats"):
        assert text not in told["text"]
    recipients, mail = box.mails[0]
    assert recipients == ["a@example.com", "b@example.com"]
    assert (mail["from"], week in mail["subject"]) == ("groundwatch@example.com", True)
    assert mail["message-id"] == f"<review.{week}.groundwatch@example.com>"
    assert mail.get_content().splitlines() == lines


async def test_questions_are_in_it_only_where_that_is_asked_for_and_do_nothing_there(
    reports: Reports, chat: tuple[Chat, SecretStr]
) -> None:
    room, hook = chat
    clock = Clock()
    clock.at += timedelta(weeks=52 * 5)  # of a week without any conversation
    await HandOver(reports, resolved(hook, texts=True), clock).turn()
    assert "Worst conversations" not in room.told[0]["text"]
    clock.at = Clock().at
    again = HandOver(reports, resolved(hook, texts=True), clock)
    await reports.store.save_state("hand-over of the review", 2**62, b'{"week":"","to":[]}')
    await again.turn()
    text = room.told[1]["text"]
    assert '"Is SSO included in Pro?"' in text
    words = "\n".join(line for line in text.splitlines() if URL not in line)
    assert "onerror" in words
    assert not set("<>@[]`|") & set(words)
    assert "://" not in words


async def test_a_mail_is_never_less_encrypted_than_asked_for() -> None:
    async with post_office() as (box, port):
        config = MailConfig(
            host="127.0.0.1",
            port=port,
            sender="groundwatch@example.com",
            to=["a@example.com"],
            user="u",
            password_env="P",
        )
        with pytest.raises(TransientDependencyError, match="SMTPNotSupportedError"):
            await send_mail(config, SecretStr("hush"), Message("m", "subject", "text"))
    assert box.mails == []


@pytest.mark.parametrize(
    ("now", "at", "zone", "expected"),
    [
        ("2026-11-30T07:59:59", "mon 08:00", "UTC", None),
        ("2026-11-30T08:00:00", "mon 08:00", "UTC", "2026-11-30T08:00:00"),
        ("2026-11-30T11:59:59", "mon 08:00", "UTC", "2026-11-30T08:00:00"),
        ("2026-11-30T12:00:00", "mon 08:00", "UTC", None),
        ("2026-12-01T08:00:00", "mon 08:00", "UTC", None),
        # Berlin: UTC+1 in winter, UTC+2 from 29 March 2026 on.
        ("2026-03-23T07:30:00", "mon 08:00", "Europe/Berlin", "2026-03-23T07:00:00"),
        ("2026-03-30T06:30:00", "mon 08:00", "Europe/Berlin", "2026-03-30T06:00:00"),
        # Monday in Auckland (UTC+13) is Sunday in UTC.
        ("2026-11-29T19:30:00", "mon 08:00", "Pacific/Auckland", "2026-11-29T19:00:00"),
        # Over midnight.
        ("2026-12-01T01:00:00", "mon 23:00", "UTC", "2026-11-30T23:00:00"),
    ],
)
def test_it_is_due_for_a_morning_in_its_own_time_zone(
    now: str, at: str, zone: str, expected: str | None
) -> None:
    found = due(datetime.fromisoformat(now).replace(tzinfo=UTC), at, zone)
    assert (found and found.replace(tzinfo=None).isoformat()) == expected


def test_it_tells_of_the_week_that_ended_last() -> None:
    assert week_before(datetime(2026, 11, 30, tzinfo=UTC).date()) == "2026-W48"
    assert week_before(datetime(2027, 1, 4, tzinfo=UTC).date()) == "2026-W53"


def test_no_text_is_a_mention_a_link_or_a_tag_in_a_chat() -> None:
    assert tame("<!channel> @all [x](https://evil.example)\n`rm`") == (
        "‹!channel› ＠all (x)(https∶//evil.example) 'rm'"
    )
    assert "<script>" not in tame(HOSTILE)
    assert len(tame("w" * 5000)) == 201


@pytest.mark.parametrize(
    ("config", "cure"),
    [
        ({"at": "monday"}, "mon 08:00"),
        ({"at": "mon 24:00"}, "mon 08:00"),
        ({"at": "mon 08:00"}, "set webhook_url_env or mail"),
        ({"time_zone": "Mars/Olympus"}, "Europe/Berlin"),
        ({"at": "mon 08:00", "webhook_url_env": "H"}, "public_url"),
        ({"mail": {"host": "h", "sender": "a@b", "to": ["x\r\nBcc: y@z"]}}, "mail address"),
        ({"mail": {"host": "h", "sender": "a:b@c", "to": ["a@b"]}}, "mail address"),
        ({"mail": {"host": "h", "sender": "a@b", "to": ['a"b@c']}}, "mail address"),
        ({"mail": {"host": "h", "sender": "a@b", "to": ["ü@example.com"]}}, "mail address"),
        ({"mail": {"host": "h", "sender": "a@b", "to": []}}, "at least 1"),
        ({"mail": {"host": "h", "sender": "a@b", "to": ["a@b"], "user": "u"}}, "both"),
    ],
)
def test_a_hand_over_that_cannot_arrive_is_refused(config: dict[str, Any], cure: str) -> None:
    with pytest.raises(ValidationError, match=cure):
        ReviewConfig.model_validate({"handover": config})
