"""What most conventions share: identities, errors and usage under their usual names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from collector.conventions.facts import Payloads, SpanError
from collector.conventions.numbers import first_text, real, text
from collector.conventions.payloads import loads
from collector.model import Attributes, Span

SESSION_KEYS = ("langfuse.session.id", "session.id", "gen_ai.conversation.id")
"""Attributes that hold the conversation id on spans of any kind, the best first."""

USER_KEYS = ("langfuse.user.id", "user.id", "enduser.id")
"""Attributes that hold the user id on spans of any kind, the best first."""

_MAX_ERROR_CHARS = 500
_SESSIONS = ("session_id", "sessionId", "thread_id", "threadId", "conversation_id", "chat_id")
_USERS = ("user_id", "userId", "user")


def present(attributes: Attributes, *keys: str) -> Payloads:
    """Return the values under the given keys that are there and not empty."""
    found: Payloads = ()
    for key in keys:
        value = attributes.get(key)
        if value is not None and value != "":
            found += (value,)
    return found


def session_keys(prefix: str) -> tuple[str, ...]:
    """Return the attribute names a conversation id may have under a prefix, the best first."""
    return tuple(prefix + key for key in (*_SESSIONS, "conversationId", "chatId"))


def user_keys(prefix: str) -> tuple[str, ...]:
    """Return the attribute names a user id may have under a prefix, the best first."""
    return tuple(prefix + key for key in _USERS)


def from_metadata(attributes: Attributes, key: str = "metadata") -> tuple[Payloads, Payloads]:
    """Return conversation and user id of a JSON metadata attribute, still to be decoded."""
    value = attributes.get(key)
    if not value:
        return (), ()
    return (partial(_metadata, value, _SESSIONS),), (partial(_metadata, value, _USERS),)


def _metadata(value: Any, keys: Iterable[str]) -> str | None:
    decoded = loads(value) if isinstance(value, str) else value
    return first_text(decoded, keys) if isinstance(decoded, dict) else None


def seconds_to_ms(value: Any) -> float | None:
    """Return milliseconds of a number of seconds."""
    number = real(value)
    return None if number is None else number * 1000


def error_of(span: Span) -> SpanError | None:
    """Return the error of a span, None of one that did not fail.

    It failed if its status says so, if it names an `error.type`, or if an exception was
    recorded and the status does not say that all is well.
    """
    if span.status_code == 1:
        return None
    exception: Attributes | None = None
    for event in span.events:
        if event.name == "exception":
            exception = event.attributes
    kind = text(span.attributes.get("error.type"))
    if span.status_code == 0 and kind is None and exception is None:
        return None
    exception = exception or {}
    kind = kind or text(exception.get("exception.type"))
    message = text(exception.get("exception.message")) or text(span.status_message)
    return SpanError(kind, shorten(message))


def shorten(message: str | None) -> str | None:
    """Return an error message without its traceback, at most 500 characters."""
    if message is None:
        return None
    head = message.partition("Traceback (most recent call last)")[0].strip()
    return (head or message.strip())[:_MAX_ERROR_CHARS]
