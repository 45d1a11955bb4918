"""The user's question and the assistant's answer inside the inputs and outputs of spans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from collector.conventions.messages import (
    clean,
    content_text,
    last_assistant_text,
    last_user_text,
    messages_of,
    role_of,
)
from collector.conventions.payloads import nested

_MAX_DEPTH = 6
_ASKED = (
    "question",
    "query",
    "user_query",
    "user_question",
    "user_input",
    "userInput",
    "user_message",
    "user_msg",
    "query_str",
    "query_text",
    "str_or_query_bundle",
    "query_bundle",
)
_QUESTION_KEYS = (
    *_ASKED,
    "messages",
    "input_messages",
    "message",
    "new_message",
    "prompt",
    "input",
    "inputs",
    "input_text",
    "input_str",
    "text",
    "content",
    "contents",
    "parts",
    "q",
    "request",
    "payload",
    "data",
    "body",
    "args",
    "kwargs",
    "value",
)
_ANSWERED = ("answer", "final_answer", "final_output", "output_text", "response_txt", "replies")
_ANSWER_KEYS = (
    *_ANSWERED,
    "response",
    "output",
    "outputs",
    "result",
    "final_result",
    "reply",
    "completion",
    "generated_text",
    "generation",
    "text",
    "content",
    "parts",
    "message",
    "messages",
    "choices",
    "generations",
    "candidates",
    "data",
    "kwargs",
    "value",
    "body",
)
_NOT_CONTENT = ("context", "documents", "id", "status", "error", "model")
_OBJECT_REPR = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>")
_NOT_TEXT = ("<generator object", "<async_generator", "<object ", "<coroutine")


def question_in(value: Any, depth: int = _MAX_DEPTH) -> str | None:
    """Return the user's words in the decoded input of a request, None if there are none.

    Read: plain text; a chat (its last user message); an object with a member that is known to
    hold a question; call arguments `{"args": [...], "kwargs": {...}}`.
    """
    value = nested(value)
    if depth <= 0 or value is None:
        return None
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, list | tuple):
        return _question_in_list(value, depth)
    if not isinstance(value, Mapping):
        return None
    role = role_of(value.get("role")) or role_of(value.get("type"))
    if role is not None:
        return (
            content_text(value.get("content") or value.get("parts") or value.get("data"))
            if (role == "user")
            else None
        )
    for key in _QUESTION_KEYS:
        if value.get(key) is not None:
            found = question_in(value[key], depth - 1)
            if found is not None:
                return found
    return _by_component(value, _ASKED, question_in, depth) or _only_text(value)


def answer_in(value: Any, depth: int = _MAX_DEPTH) -> str | None:
    """Return the assistant's words in the decoded output of a request, None if there are none.

    Read: plain text; a chat whose last message is the assistant's; replies of OpenAI, Gemini,
    LangChain and Haystack; an object with a member that is known to hold an answer.
    """
    value = nested(value)
    if depth <= 0 or value is None:
        return None
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, list | tuple):
        return _answer_in_list(value, depth)
    if not isinstance(value, Mapping):
        return None
    if _is_message(value):
        return last_assistant_text(messages_of([value]))
    for key in _ANSWER_KEYS:
        if value.get(key) is not None:
            found = answer_in(value[key], depth - 1)
            if found is not None:
                return found
    return _by_component(value, _ANSWERED, answer_in, depth) or _only_text(value)


def _plain(text: str) -> str | None:
    return None if text.startswith(_NOT_TEXT) else clean(text)


def _is_message(value: Mapping[str, Any]) -> bool:
    return (
        role_of(value.get("role") or value.get("_role")) is not None
        or role_of(value.get("type")) is not None
        or value.get("lc") is not None
    )


def _question_in_list(value: list[Any] | tuple[Any, ...], depth: int) -> str | None:
    messages = messages_of(value)
    if messages and any(message.role == "user" for message in messages):
        return last_user_text(messages)
    texts = [i for i in value if isinstance(i, str) and i.strip() and not _OBJECT_REPR.match(i)]
    if texts:
        return _plain(max(texts, key=lambda item: (" " in item.strip(), len(item))))
    for item in value:
        found = question_in(item, depth - 1) if isinstance(item, Mapping) else None
        if found is not None:
            return found
    return None


def _answer_in_list(value: list[Any] | tuple[Any, ...], depth: int) -> str | None:
    if not value:
        return None
    if isinstance(value[0], str):
        return _plain(value[0])
    if isinstance(value[0], Mapping) and not _is_message(value[0]):
        part = content_text(value)
        if part is not None and ("text" in value[0] or "type" in value[0]):
            return part
    messages = messages_of(value)
    if messages:
        return last_assistant_text(messages)
    return answer_in(value[0], depth - 1)


def _by_component(
    value: Mapping[str, Any], keys: Iterable[str], find: Any, depth: int
) -> str | None:
    """Look for well-known members one level down: `{component: {"query": …}}`."""
    known = list(keys)
    for part in value.values():
        inner = nested(part)
        if isinstance(inner, Mapping):
            for key in known:
                if inner.get(key) is not None:
                    found: str | None = find(inner[key], depth - 2)
                    if found is not None:
                        return found
    return None


def _only_text(value: Mapping[str, Any]) -> str | None:
    """Return the single member of an object that has just one, if it is text."""
    if len(value) != 1:
        return None
    ((key, only),) = value.items()
    return _plain(only) if isinstance(only, str) and key not in _NOT_CONTENT else None
