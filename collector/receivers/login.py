"""The ingest token: who may send."""

from __future__ import annotations

import base64
import binascii
import hmac

from pydantic import SecretStr

HOW_TO_LOG_IN = (
    "send the ingest token as `Authorization: Bearer TOKEN`; for OpenTelemetry SDKs set "
    "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN"
)


def may_send(authorization: str, token: SecretStr | None) -> bool:
    """Return whether a sender with this Authorization header ("" for none) is let in.

    Clients that know Basic only (Langfuse's) give the token as their password.
    """
    if token is None:
        return True
    scheme, _, given = authorization.strip().partition(" ")
    given = given.strip()
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.encode(), token.get_secret_value().encode())
