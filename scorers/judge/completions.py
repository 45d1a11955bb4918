"""One call to a chat model: what is asked, what comes back, and how it can fail."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from openai.types.chat import ChatCompletionMessageParam

from collector.errors import JudgeError
from scorers.judge.pricing import TokenCounts

Messages = list[ChatCompletionMessageParam]

CONGESTION = frozenset({"rate_limited", "server_error", "timeout"})
"""Causes that say: ask less at once."""


class Task(NamedTuple):
    """What is asked: the messages, the JSON schema of the reply and its name, the output bound."""

    messages: Messages
    name: str
    schema: dict[str, Any]
    max_tokens: int


class Reply(NamedTuple):
    """The text of a reply; `cut` if the output bound ended it."""

    text: str
    cut: bool


class CallError(JudgeError):
    """A call failed.

    Args:
        cause: see `JudgeError`.
        detail: see `JudgeError`.
        endpoint: the endpoint is at fault, not this call: others would fail as well.
        retry: the same call may succeed later.
        retry_after_seconds: not before that, if the server said so.
        billed: the provider may charge for it all the same.
    """

    def __init__(
        self,
        cause: str,
        detail: str = "",
        *,
        endpoint: bool = False,
        retry: bool = False,
        retry_after_seconds: float = 0.0,
        billed: bool = False,
    ) -> None:
        super().__init__(cause, detail)
        self.endpoint = endpoint
        self.retry = retry
        self.retry_after_seconds = retry_after_seconds
        self.billed = billed


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message = _Message()
    finish_reason: str | None = None


class Completion(msgspec.Struct, frozen=True):
    """What we need of a chat completion. The client's own model checks no types."""

    choices: list[_Choice] | None = None
    counts: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="usage")

    @property
    def usage(self) -> TokenCounts | None:
        """Return the tokens counted, None where that cannot be read: the answer counts anyway."""
        try:
            return msgspec.json.decode(self.counts, type=TokenCounts | None, strict=False)
        except msgspec.DecodeError:
            return None


def read_completion(body: bytes) -> Completion:
    """Read the body of an answer.

    Raises:
        CallError: it is no chat completion, but the page of a proxy, say.
    """
    try:
        return msgspec.json.decode(body, type=Completion, strict=False)
    except (msgspec.DecodeError, UnicodeError) as err:
        detail = "the body is not a chat completion"
        raise CallError("unparseable", detail, endpoint=True, billed=True) from err


def read_reply(completion: Completion) -> Reply:
    """Return the reply, its text "" where there is none.

    Raises:
        CallError: the provider filtered it, or the model refused.
    """
    choice = completion.choices[0] if completion.choices else None
    if choice is None:
        return Reply("", cut=False)
    if choice.finish_reason == "content_filter":
        raise CallError("content_filter")
    if choice.message.refusal:
        raise CallError("refused")
    return Reply(choice.message.content or "", cut=choice.finish_reason == "length")
