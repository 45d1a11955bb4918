"""The part of the configuration that the review page reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from argon2 import extract_parameters
from argon2.exceptions import InvalidHashError
from pydantic import (
    AfterValidator,
    Field,
    IPvAnyNetwork,
    SecretStr,
    model_validator,
)

from collector.config.section import Section

MAX_NAME_CHARACTERS = 60
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MOMENT = re.compile(rf"({'|'.join(WEEKDAYS)}) ([01]\d|2[0-3]):([0-5]\d)")
_MAILBOX = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
"""An address as forms on the web take it (HTML, valid e-mail address); others go elsewhere."""


def _trace_url(value: str) -> str:
    if not re.match(r"https?://[^/\s]+/", value) or "{trace_id}" not in value:
        raise ValueError("must be such as https://tempo.example.com/trace/{trace_id}")
    return value


def _public_url(value: str) -> str:
    url = urlsplit(value)
    whole = url.path.strip("/") or url.query or url.fragment or "@" in url.netloc
    if url.scheme not in ("http", "https") or not url.hostname or whole:
        raise ValueError("must be such as https://review.example.com, without a path")
    return value.rstrip("/")


def _whole_path(value: Path) -> Path:
    if not value.is_absolute():
        raise ValueError("give the whole path, such as /srv/assistant/golden.yaml")
    return value


def _password_hash(value: SecretStr) -> SecretStr:
    try:
        extract_parameters(value.get_secret_value())
    except InvalidHashError as err:
        raise ValueError("is no hash of a password; `groundwatch review password` makes one") from (
            err
        )
    return value


def _name(value: str) -> str:
    if (
        not value.isprintable()
        or value.strip() != value
        or not 0 < len(value) <= MAX_NAME_CHARACTERS
    ):
        raise ValueError("a name has 1 to 60 printable characters, and no space around it")
    return value


def _moment(value: str) -> str:
    if _MOMENT.fullmatch(value) is None:
        raise ValueError("must be a day and a time, such as mon 08:00")
    return value


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (LookupError, ValueError, OSError) as err:
        raise ValueError("is no time zone; write for example Europe/Berlin") from err
    return value


def _mailbox(value: str) -> str:
    if _MAILBOX.fullmatch(value) is None:
        raise ValueError("must be a mail address, such as team@example.com")
    return value


ReviewerName = Annotated[str, AfterValidator(_name)]
Mailbox = Annotated[str, AfterValidator(_mailbox)]


class MailConfig(Section):
    """Where the hand-over is mailed to, and through which server."""

    host: str = Field(min_length=1, description="SMTP server")
    port: int = Field(587, ge=1, le=65535, description="its port")
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="how the connection is encrypted; never less than is asked for"
    )
    sender: Mailbox = Field(description="address the mail comes from")
    to: list[Mailbox] = Field(min_length=1, description="addresses it goes to")
    user: str | None = Field(None, description="user at the server, with password_env")
    password_env: str | None = Field(
        None, description="environment variable with that user's password"
    )

    @model_validator(mode="after")
    def _user_and_password(self) -> MailConfig:
        if (self.user is None) != (self.password_env is None):
            raise ValueError("user, password_env: give both or neither")
        if self.user is not None and self.security == "none":
            raise ValueError("security: none would send the password in the clear")
        return self


class HandoverConfig(Section):
    """The week's hand-over: sent once a week to a chat or by mail."""

    at: Annotated[str, AfterValidator(_moment)] | None = Field(
        None,
        description="day and time, such as mon 08:00; null sends none. "
        "It tells of the week that ended last",
    )
    time_zone: Annotated[str, AfterValidator(_time_zone)] = Field(
        "UTC", description="zone of that time, such as Europe/Berlin"
    )
    webhook_url_env: str | None = Field(
        None,
        description="environment variable with the address of an incoming webhook that takes "
        '{"text": …}: Slack, Mattermost, Google Chat',
    )
    mail: MailConfig | None = Field(None, description="mail server and addresses")
    texts: bool = Field(
        default=False, description="whether it carries questions of users, as far as stored"
    )

    @model_validator(mode="after")
    def _has_a_receiver(self) -> HandoverConfig:
        if self.at is not None and self.webhook_url_env is None and self.mail is None:
            raise ValueError("at: nobody receives it; set webhook_url_env or mail")
        return self


class ReviewConfig(Section):
    """The weekly review page."""

    users: dict[ReviewerName, Annotated[SecretStr, AfterValidator(_password_hash)]] = Field(
        default_factory=dict,
        description="who may log in: name and hash of the password, from "
        "`groundwatch review password`",
    )
    users_env: str | None = Field(
        None,
        description="environment variable with further users, a line `name: hash` for each",
    )
    proxy_header: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9-]+$",
        description="header in which a proxy with a login names the reviewer, such as "
        "X-Forwarded-User",
    )
    trusted_proxies: list[IPvAnyNetwork] = Field(
        default_factory=list, description="addresses or networks that header is believed from"
    )
    session_key_env: str | None = Field(
        None,
        description="environment variable with the key that signs sessions, where several agents "
        "serve the page; else one is kept in data_dir",
    )
    api_token_env: str | None = Field(
        None, description="environment variable with a token for programs that use the JSON API"
    )
    public_url: Annotated[str, AfterValidator(_public_url)] | None = Field(
        None,
        description="where people open the page, such as https://review.example.com; "
        "for links in the hand-over, and sessions by https only",
    )
    handover: HandoverConfig = HandoverConfig()
    trace_url: Annotated[str, AfterValidator(_trace_url)] | None = Field(
        None,
        description="where your tracing back end shows a trace, such as "
        "https://tempo.example.com/trace/{trace_id}",
    )
    golden_file: Annotated[Path, AfterValidator(_whole_path)] | None = Field(
        None,
        description="golden file that questions are compared with while they are edited, and that "
        "accepted ones are added to",
    )

    @model_validator(mode="after")
    def _proxies_are_named(self) -> ReviewConfig:
        if self.proxy_header is not None and not self.trusted_proxies:
            raise ValueError(
                "trusted_proxies: name the addresses that proxy_header is believed from"
            )
        return self

    @model_validator(mode="after")
    def _links_lead_somewhere(self) -> ReviewConfig:
        if self.handover.at is not None and self.public_url is None:
            raise ValueError("public_url: the hand-over links to it; name it")
        return self
