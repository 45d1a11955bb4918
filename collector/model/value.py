"""What all values of the model share."""

from __future__ import annotations

from typing import Any

import msgspec

Attributes = dict[str, Any]
"""Decoded OTLP attributes: str, bool, int, float, bytes, None, and lists and dicts of these."""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all values: immutable, keyword-only."""
