"""Feedback of chat applications, told apart from our own signals by keys that only they have.

An application that mirrors its feedback to `POST /v1/signals` can send it as it is: Dify
(message feedbacks, with the `message_id` of its path added), Open WebUI (feedback form), Chainlit
(`upsert_feedback`) and Flowise (chat message feedback).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from collector.model import Signal
from collector.signals.common import Client, Ignored, Posted, Score, signal_of
from collector.signals.values import Comment, Id, Time, Value

Reader = Callable[[Any, Client], Signal | Ignored]


def reader_of(item: Any) -> Reader | None:
    """Return how to read an object of one of these applications, None for any other."""
    if not isinstance(item, dict) or "kind" in item:
        return None
    keys = item.keys()
    if {"data", "meta"} <= keys and isinstance(item["data"], dict):
        return _open_webui
    if {"forId", "value"} <= keys:
        return _chainlit
    if {"chatId", "messageId", "rating"} <= keys:
        return _flowise
    if {"message_id", "rating"} <= keys:
        return _dify
    return None


class _Dify(Posted):
    """`rating` is like, dislike, or null to take it back; a user has one on a message."""

    message_id: Id
    rating: Literal["like", "dislike"] | None
    user: Id = None
    content: Comment = None


def _dify(item: Any, client: Client) -> Signal | Ignored:
    body = _Dify.model_validate(item)
    if body.rating is None and body.user is None:
        raise ValueError("rating: null takes a rating back; say whose by user")
    return signal_of(
        Score(
            source="dify",
            name="rating",
            value=None,
            label=body.rating,
            target={"message_id": body.message_id},
            identity=None if body.user is None else [body.message_id, body.user],
            comment=body.content,
            user_id=body.user,
            by_user=True,
            revoked=body.rating is None,
        ),
        client,
    )


class _OpenWebuiData(Posted):
    rating: Value = None
    comment: Comment = None
    reason: Comment = None


class _OpenWebuiMeta(Posted):
    chat_id: Id = None
    message_id: Id = None


class _OpenWebui(Posted):
    """`data.rating` is 1 or -1, as a number or in words; one on a message unless `id` says more."""

    id: Id = None
    user_id: Id = None
    data: _OpenWebuiData
    meta: _OpenWebuiMeta
    updated_at: Time = None
    created_at: Time = None


def _open_webui(item: Any, client: Client) -> Signal | Ignored:
    body = _OpenWebui.model_validate(item)
    user = body.user_id or ""
    return signal_of(
        Score(
            source="open-webui",
            name="rating",
            value=body.data.rating,
            scale=None,
            target=_message(body.meta.message_id, body.meta.chat_id),
            signal_id=body.id,
            identity=[body.meta.chat_id, body.meta.message_id, user],
            comment=body.data.comment or body.data.reason,
            user_id=body.user_id,
            by_user=True,
            occurred_at=body.updated_at or body.created_at,
            revoked=body.data.rating is None,
        ),
        client._replace(named={"rating": "thumbs"}),
    )


class _Chainlit(Posted):
    """`value` is 0 or 1; `forId` is the step, the message of the assistant."""

    id: Id = None
    for_id: Id = Field(alias="forId")
    thread_id: Id = Field(None, alias="threadId")
    value: Value
    comment: Comment = None


def _chainlit(item: Any, client: Client) -> Signal | Ignored:
    body = _Chainlit.model_validate(item)
    return signal_of(
        Score(
            source="chainlit",
            name="feedback",
            value=body.value,
            target=_message(body.for_id, body.thread_id),
            signal_id=body.id,
            identity=[body.for_id],
            comment=body.comment,
            by_user=True,
            revoked=body.value is None,
        ),
        client._replace(named={"feedback": "thumbs"}),
    )


class _Flowise(Posted):
    """`rating` is THUMBS_UP or THUMBS_DOWN; one on a message."""

    chat_id: Id = Field(alias="chatId")
    message_id: Id = Field(alias="messageId")
    rating: Literal["THUMBS_UP", "THUMBS_DOWN"]
    content: Comment = None


def _flowise(item: Any, client: Client) -> Signal | Ignored:
    body = _Flowise.model_validate(item)
    return signal_of(
        Score(
            source="flowise",
            name="rating",
            value=None,
            label=body.rating,
            target=_message(body.message_id, body.chat_id),
            identity=[body.chat_id, body.message_id],
            comment=body.content,
            by_user=True,
        ),
        client,
    )


def _message(message_id: str | None, conversation_id: str | None) -> dict[str, str | None]:
    return {"message_id": message_id, "conversation_id": conversation_id}
