"""Mail over TLS and webhooks, against servers that are real, wrong, or nowhere."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from collector.config.review import MailConfig
from collector.errors import TransientDependencyError
from collector.server import HttpServer
from sinks.messages import Message, post_webhook, send_mail

MESSAGE = Message("review.2026-W48", "Wöchentlich", "‹Was› war\n.\nQUIT\n" + "x" * 2000)
PASSWORD = "hush"
SECRET = "T000-B000-secret"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate of 127.0.0.1 that nobody has signed, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    file, key = folder / "certificate.pem", folder / "key.pem"
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    named = ("-subj", "/CN=a", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(key), "-out", str(file))
    subprocess.run([*command, *named, *files], check=True, capture_output=True)
    return file, key


class Office:
    """Takes mail of its one user, as it comes."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []

    def enter(self, *asked: Any) -> AuthResult:
        given = asked[-1]
        right = isinstance(given, LoginPassword) and given.password == PASSWORD.encode()
        return AuthResult(success=right, handled=False)

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:
        self.mails.append(envelope.content)
        return "250 OK"


@asynccontextmanager
async def office(
    security: str, certificate: tuple[Path, Path]
) -> AsyncIterator[tuple[Office, MailConfig]]:
    """Run a mail server that takes nothing in the clear."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    found = Office()
    starts = security == "starttls"
    options: dict[str, Any] = {"tls_context": context, "require_starttls": True} if starts else {}

    def session() -> SMTP:
        return SMTP(
            found,
            hostname="mail",
            authenticator=found.enter,
            auth_required=starts,
            auth_require_tls=starts,
            **options,
        )

    server = await asyncio.get_running_loop().create_server(
        session, "127.0.0.1", 0, ssl=None if starts else context
    )
    async with server:
        yield (
            found,
            MailConfig.model_validate(
                {
                    "host": "127.0.0.1",
                    "port": server.sockets[0].getsockname()[1],
                    "security": security,
                    "sender": "groundwatch@example.com",
                    "to": ["a@example.com"],
                    "user": "groundwatch",
                    "password_env": "P",
                }
            ),
        )


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_mail_goes_encrypted_to_a_server_whose_certificate_is_known(
    security: str, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(security, certificate) as (found, config):
        with pytest.raises(
            TransientDependencyError, match=r"not accepted: self.signed .*CERT_FILE"
        ):
            await send_mail(config, SecretStr(PASSWORD), MESSAGE)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        with pytest.raises(
            TransientDependencyError, match="SMTPAuthenticationError 535"
        ) as refused:
            await send_mail(config, SecretStr("wrong secret"), MESSAGE)
        assert "wrong secret" not in str(refused.value)
        elsewhere = config.model_copy(update={"host": "localhost"})
        with pytest.raises(TransientDependencyError, match="not valid for 'localhost'"):
            await send_mail(elsewhere, SecretStr(PASSWORD), MESSAGE)
        assert found.mails == []
        await send_mail(config, SecretStr(PASSWORD), MESSAGE)
    (mail,) = found.mails
    assert b"Message-ID: <review.2026-W48.groundwatch@example.com>" in mail


@pytest.mark.parametrize(
    "change", [{"host": "a..b"}, {"host": "x" * 70}, {"host": "none.invalid"}, {"port": 1}]
)
async def test_a_mail_server_that_cannot_be_is_told_like_one_that_is_away(
    change: dict[str, Any],
) -> None:
    whole = {"host": "127.0.0.1", "security": "none", "sender": "a@b", "to": ["a@b"], **change}
    with pytest.raises(TransientDependencyError, match="the mail server at "):
        await send_mail(MailConfig.model_validate(whole), None, MESSAGE)


@pytest.mark.parametrize(
    "url", ["x", "ftp://x/", "http://[::1", "http://a..b/", "http://127.0.0.1:99999/", "http://x\n"]
)
async def test_a_webhook_that_cannot_be_is_told_without_its_address(url: str) -> None:
    with pytest.raises(TransientDependencyError, match=r"^the webhook: \w+$"):
        await post_webhook(SecretStr(url + SECRET), MESSAGE)


async def test_a_webhook_that_leads_elsewhere_is_not_followed() -> None:
    taken: list[str] = []

    async def take(request: Request) -> Response:
        taken.append(request.url.path)
        return RedirectResponse("/elsewhere", 307)

    app = Starlette(routes=[Route("/{path:path}", take, methods=["POST", "GET"])])
    server = HttpServer(app, "127.0.0.1:0", "webhook")
    server.start()
    try:
        with pytest.raises(TransientDependencyError, match=r"^the webhook answered 307$"):
            await post_webhook(SecretStr(f"{server.url}/{SECRET}"), MESSAGE)
    finally:
        await server.stop()
    assert taken == [f"/{SECRET}"]
