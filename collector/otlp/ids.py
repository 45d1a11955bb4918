"""Trace and span ids in every form senders use. Inside they are lower-case hex."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
_HEX = frozenset(b"0123456789abcdefABCDEF")


def id_of_bytes(raw: bytes, size: int) -> bytes | None:
    """Return the id as `size` bytes, b"" for none (empty or zeros), None if it is no id.

    Also undone: hex digits sent as text, and hex digits that a sender took for base64, which
    makes 24 bytes of a trace id and 12 of a span id.
    """
    if len(raw) == size:
        return raw if any(raw) else b""
    if not any(raw):
        return b""
    if len(raw) == 2 * size and _HEX.issuperset(raw):
        return id_of_bytes(bytes.fromhex(raw.decode("ascii")), size)
    if len(raw) * 2 == size * 3:
        text = base64.b64encode(raw)
        if _HEX.issuperset(text):
            return id_of_bytes(bytes.fromhex(text.decode("ascii")), size)
    return raw.rjust(size, b"\0") if len(raw) < size else None


def id_of_json(value: Any, size: int) -> bytes | None:
    """Return the id of a JSON value as `size` bytes, b"" for none, None if it is no id.

    Read: hex of either case, with dashes or a 0x before it, short of leading zeros; base64;
    a list of byte values, a Node.js Buffer, a Uint8Array object.
    """
    if value is None or value == "":
        return b""
    if isinstance(value, str):
        return _id_of_text(value.strip(), size)
    if isinstance(value, Mapping):
        data = value.get("data")
        value = data if isinstance(data, list) else list(value.values())
    if isinstance(value, list) and len(value) <= 4 * size:
        try:
            return id_of_bytes(bytes(value), size)
        except (TypeError, ValueError):
            return None
    return None


def _id_of_text(text: str, size: int) -> bytes | None:
    digits = text.removeprefix("0x").replace("-", "")
    if len(digits) <= 2 * size:
        try:
            return id_of_bytes(bytes.fromhex(digits.rjust(2 * size, "0")), size)
        except ValueError:
            pass
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    if len(bare) != -(-size * 4 // 3):
        return None
    try:
        return id_of_bytes(base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True), size)
    except (binascii.Error, ValueError):
        return None
