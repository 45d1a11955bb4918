"""Chat messages in all their shapes: OpenAI, OTel parts, LangChain, Bedrock, Gemini, pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from collector.conventions.payloads import nested

REDACTED = "__REDACTED__"
"""What OpenInference puts in the place of content that is not to be traced."""

_MAX_DEPTH = 6
_BODY_KEYS = ("content", "parts", "tool_calls", "_content")
_ROLES = {
    "human": "user",
    "humanmessage": "user",
    "user": "user",
    "usermessage": "user",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "assistant": "assistant",
    "assistantmessage": "assistant",
    "model": "assistant",
    "chatbot": "assistant",
    "system": "system",
    "systemmessage": "system",
    "developer": "system",
    "tool": "tool",
    "toolmessage": "tool",
    "function": "tool",
}
_MESSAGE_LISTS = ("messages", "input_messages", "all_messages", "contents", "chat_history")
_TOOL_CALL_KEYS = ("tool_calls", "toolUse", "functionCall", "function_call", "tool_use")
_TOOL_CALL_PARTS = ("tool_call", "tool_use", "tool-call", "function_call", "function")
_TOOL_RESULT_PARTS = ("tool_call_response", "tool_result", "tool-result", "function_call_output")
_TOOL_RESULT_KEYS = ("toolResult", "functionResponse", "function_response", "tool_call_response")
_ROLE_LINES = re.compile(r"^(system|developer|user|human|assistant|ai|tool): ?", re.MULTILINE)
_DATA_URI = re.compile(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=_-]+")


class Message(NamedTuple):
    """One message. `text` is None where it has none or it was not captured.

    `tool_call` marks a message that calls tools, `tool_result` one that brings their results.
    """

    role: str
    text: str | None
    tool_call: bool = False
    tool_result: bool = False


def messages_of(value: Any, depth: int = _MAX_DEPTH) -> list[Message]:
    """Return the messages a decoded value holds, [] if it holds none."""
    value = nested(value)
    if depth <= 0:
        return []
    if isinstance(value, str):
        return _of_lines(value)
    if isinstance(value, Mapping):
        for key in _MESSAGE_LISTS:
            if isinstance(nested(value.get(key)), list | tuple):
                return messages_of(value[key], depth - 1)
        message = _of_mapping(value)
        return [message] if message else []
    if not isinstance(value, list | tuple):
        return []
    if value and isinstance(value[0], list) and not _is_pair(value[0]):
        return messages_of(value[0], depth - 1)
    found = [_of_item(item, depth) for item in value]
    return [message for message in found if message is not None]


def last_user_text(messages: Sequence[Message]) -> str | None:
    """Return the text of the last message the user wrote.

    None where that message has no captured text: an earlier one is not the question.
    """
    for message in reversed(messages):
        if message.role == "user" and not message.tool_result:
            return message.text
    return None


def last_assistant_text(messages: Sequence[Message]) -> str | None:
    """Return the text of the last message if the assistant wrote it and calls no tool in it."""
    for message in reversed(messages):
        if message.role in ("user", "system", "tool"):
            return None
        if message.text is not None and not message.tool_call:
            return message.text
        if message.tool_call:
            return None
    return None


def ends_in_tool_call(messages: Sequence[Message]) -> bool:
    """Tell whether the last message calls a tool and says nothing."""
    return bool(messages) and messages[-1].tool_call and messages[-1].text is None


def content_text(content: Any, depth: int = _MAX_DEPTH) -> str | None:
    """Return the text of message content: a string, a part, or a list of parts.

    Images, reasoning, tool calls and their results are no text.
    """
    if depth <= 0 or content is None:
        return None
    if isinstance(content, str):
        return clean(content)
    if isinstance(content, Mapping):
        return _part_text(content, depth)
    if isinstance(content, list | tuple):
        texts = [content_text(part, depth - 1) for part in content]
        joined = "".join(t for t in texts if t)
        return joined or None
    return None


def clean(text: str) -> str | None:
    """Return text without embedded images, None if nothing is left or it was masked."""
    if "base64," in text:
        text = _DATA_URI.sub("", text)
    return text if text.strip() and text != REDACTED else None


def role_of(value: Any) -> str | None:
    """Return user, assistant, system or tool for the many names of these, None for others."""
    return _ROLES.get(value.lower()) if isinstance(value, str) else None


def _part_text(part: Mapping[str, Any], depth: int) -> str | None:
    kind = part.get("type")
    if kind in ("reasoning", "thinking", "image", "image_url", "blob", "file", "uri", "audio"):
        return None
    if kind in _TOOL_CALL_PARTS or kind in _TOOL_RESULT_PARTS:
        return None
    for key in ("text", "content", "parts", "value"):
        if part.get(key) is not None:
            return content_text(part[key], depth - 1)
    return None


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and role_of(value[0]) is not None
    )


def _of_item(item: Any, depth: int) -> Message | None:
    item = nested(item)
    if _is_pair(item):
        return Message(role_of(item[0]) or "", content_text(item[1]))
    if isinstance(item, Mapping):
        return _of_mapping(item, depth)
    if isinstance(item, list) and item:
        inner = messages_of(item, depth - 1)
        return inner[-1] if inner else None
    return None


def _of_mapping(value: Mapping[str, Any], depth: int = _MAX_DEPTH) -> Message | None:
    """Read one message object; None if it is none."""
    if depth <= 0:
        return None
    body = value.get("data") or value.get("kwargs")
    if isinstance(body, Mapping) and ("type" in value or "lc" in value):
        return _with_role(body, _role(value) or _role(body))
    inner = nested(value.get("message"))
    if isinstance(inner, Mapping) and "content" not in value and "parts" not in value:
        return _of_mapping(inner, depth - 1)
    role = _role(value)
    if role is None and not any(k in value for k in _BODY_KEYS):
        return None
    return _with_role(value, role)


def _role(value: Mapping[str, Any]) -> str | None:
    name = value.get("role") or value.get("_role") or value.get("type")
    if name in ("constructor", None) and isinstance(value.get("id"), list) and value["id"]:
        name = value["id"][-1]
    return role_of(name)


def _with_role(value: Mapping[str, Any], role: str | None) -> Message:
    content = value.get("content")
    if content is None:
        content = value.get("parts", value.get("_content", value.get("contents")))
    content = content if isinstance(content, str) else nested(content)
    parts = content if isinstance(content, list | tuple) else [content]
    kwargs = value.get("additional_kwargs")
    calls = any(value.get(key) for key in _TOOL_CALL_KEYS) or any(map(_is_tool_call, parts))
    calls = calls or (isinstance(kwargs, Mapping) and any(kwargs.get(k) for k in _TOOL_CALL_KEYS))
    text = content_text(content)
    if text is None:
        text = content_text(value.get("text"))
    results = bool(parts) and any(map(_is_tool_result, parts)) and text is None
    return Message(role or "assistant", text, calls, results or role == "tool")


def _is_tool_call(part: Any) -> bool:
    return isinstance(part, Mapping) and (
        part.get("type") in _TOOL_CALL_PARTS or any(key in part for key in _TOOL_CALL_KEYS)
    )


def _is_tool_result(part: Any) -> bool:
    return isinstance(part, Mapping) and (
        part.get("type") in _TOOL_RESULT_PARTS or any(key in part for key in _TOOL_RESULT_KEYS)
    )


def _of_lines(text: str) -> list[Message]:
    """Read messages written as lines that start with a role, as some instrumentations do."""
    marks = list(_ROLE_LINES.finditer(text))
    if not marks or marks[0].start() != 0:
        return []
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [
        Message(role_of(mark.group(1)) or "user", clean(text[mark.end() : end].rstrip("\n")))
        for mark, end in zip(marks, ends, strict=True)
    ]
