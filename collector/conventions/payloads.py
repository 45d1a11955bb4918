"""Payloads as values: JSON text decoded where it is JSON, cut text recognised as cut."""

from __future__ import annotations

import ast
import json
from typing import Any

import msgspec

from collector.conventions.facts import Payload

_MAX_LEVELS = 2
_MAX_REPR_CHARS = 100_000
_MAX_CUT_CHARS = 1_000_000
_CONTAINER = ("{", "[")


class Decoder:
    """Decodes the payloads of one trace, each once, and remembers whether one was cut off."""

    def __init__(self) -> None:
        self.truncated = False
        self._done: dict[str, Any] = {}

    def decode(self, payload: Payload) -> Any:
        """Return the value of a payload: JSON decoded up to two levels, other text as it is.

        Only objects, arrays and quoted strings count as JSON: a question "123" or "null" is
        text. JSON that was cut off gives what can be saved of it, and sets `truncated`.
        """
        value = payload() if callable(payload) else payload
        if not isinstance(value, str):
            return value
        if value not in self._done:
            self._done[value] = self._decode_text(value)
        return self._done[value]

    def _decode_text(self, text: str) -> Any:
        value: Any = text
        for _ in range(_MAX_LEVELS):
            if not isinstance(value, str):
                break
            decoded = loads(value)
            if decoded is None:
                saved = salvage(value)
                if saved is not None:
                    self.truncated = True
                    return saved
                break
            value = decoded
        return value


def loads(text: str) -> Any:
    """Return the object, array or string that JSON (or a Python literal) text stands for.

    None where the text is neither.
    """
    head = text.lstrip()[:2]
    if head[:1] not in ("{", "[", '"'):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        value = _loads_slowly(text, head)
    return value if isinstance(value, dict | list | str) else None


def _loads_slowly(text: str, head: str) -> Any:
    try:
        return _valid(json.loads(text))
    except RecursionError:
        return None
    except ValueError:
        pass
    if head not in ("{'", "['", "[{") or "'" not in text[:200] or len(text) > _MAX_REPR_CHARS:
        return None
    try:
        return _valid(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _valid(value: Any) -> Any:
    """Return a value without half surrogate pairs: text with one could not be stored."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, dict):
        return {
            _valid(key) if isinstance(key, str) else key: _valid(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_valid(item) for item in value]
    return value


def salvage(text: str) -> Any:
    """Return what can be saved of an object or array whose end is missing, None if not cut.

    All complete members before the cut are kept; the last, half one is dropped.
    """
    start = text[:_MAX_CUT_CHARS].lstrip()
    if not start.startswith(('{"', "[{", '["', "[[")):
        return None
    stack: list[str] = []
    safe: tuple[int, str] | None = None
    in_string = escaped = False
    for position, char in enumerate(start):
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in _CONTAINER:
            stack.append("}" if char == "{" else "]")
        elif char in "}]":
            if not stack or stack.pop() != char:
                return None
            if not stack:
                return None
            safe = (position + 1, "".join(reversed(stack)))
        elif char == ",":
            safe = (position, "".join(reversed(stack)))
    if safe is None:
        return {} if start.startswith("{") else []
    end, closing = safe
    try:
        value = _valid(json.loads(start[:end] + closing))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def nested(value: Any) -> Any:
    """Return a value found inside another one, decoded if it is JSON text once more."""
    if isinstance(value, str) and value.lstrip()[:1] in _CONTAINER:
        decoded = loads(value)
        return value if decoded is None else decoded
    return value
