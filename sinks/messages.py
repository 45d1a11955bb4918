"""Messages to people: to the incoming webhook of a chat, and by mail."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate
from typing import NamedTuple

import httpx
import structlog
from pydantic import SecretStr

from collector.config.review import MailConfig
from collector.errors import TransientDependencyError

_TIMEOUT_SECONDS = 30.0
_UNUSABLE = (ValueError, OverflowError, ExceptionGroup)
"""What is raised for a host or a port that no address can have."""

log = structlog.get_logger()


class Message(NamedTuple):
    """One message; `name` is the same whenever the same one is sent again."""

    name: str
    subject: str
    text: str


async def post_webhook(url: SecretStr, message: Message) -> None:
    """Post `{"text": …}`. The address is a secret, and in no error.

    Raises:
        TransientDependencyError: nobody took it.
    """
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
            answer = await client.post(url.get_secret_value(), json={"text": message.text})
    except (httpx.HTTPError, httpx.InvalidURL, *_UNUSABLE) as err:
        raise TransientDependencyError(f"the webhook: {type(err).__name__}") from None
    if not answer.is_success:
        raise TransientDependencyError(f"the webhook answered {answer.status_code}")


async def send_mail(config: MailConfig, password: SecretStr | None, message: Message) -> None:
    """Mail a message, encrypted as configured or not at all.

    Raises:
        TransientDependencyError: the server did not take it.
    """
    try:
        refused = await asyncio.to_thread(_send, config, password, message)
    except (OSError, smtplib.SMTPException, *_UNUSABLE) as err:
        raise TransientDependencyError(f"the mail server at {config.host}: {_told(err)}") from err
    if refused:
        log.warning("mail_refused_for_some", addresses=refused)


def _send(config: MailConfig, password: SecretStr | None, message: Message) -> int:
    """Return for how many of the addresses the server refused."""
    mail = EmailMessage()
    mail["From"], mail["To"] = config.sender, ", ".join(config.to)
    mail["Subject"], mail["Date"] = message.subject, formatdate()
    mail["Message-ID"] = f"<{message.name}.groundwatch@{config.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text)
    context = ssl.create_default_context()
    with _connection(config, context) as server:
        if config.security == "starttls":
            server.starttls(context=context)
        if config.user is not None and password is not None:
            server.login(config.user, password.get_secret_value())
        return len(server.send_message(mail))


def _told(err: Exception) -> str:
    if isinstance(err, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not accepted: {err.verify_message}; "
            "name a file with its authority in SSL_CERT_FILE"
        )
    code = getattr(err, "smtp_code", None)
    return type(err).__name__ if code is None else f"{type(err).__name__} {code}"


def _connection(config: MailConfig, context: ssl.SSLContext) -> smtplib.SMTP:
    if config.security == "tls":
        return smtplib.SMTP_SSL(config.host, config.port, timeout=_TIMEOUT_SECONDS, context=context)
    return smtplib.SMTP(config.host, config.port, timeout=_TIMEOUT_SECONDS)
