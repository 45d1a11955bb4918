"""Attributes that spell a list out: `prefix.N.rest`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_INDEX = 10_000
"""Indices beyond are ignored: no list is that long, and hostile keys may claim one."""


def indexed(attributes: Mapping[str, Any], prefix: str) -> dict[int, dict[str, Any]]:
    """Return the attributes `prefix.N.rest` as {N: {rest: value}} in order of N.

    Indices are never renumbered: a list whose head was dropped keeps its true positions.
    """
    found: dict[int, dict[str, Any]] = {}
    start = len(prefix) + 1
    dotted = prefix + "."
    for key, value in attributes.items():
        if not key.startswith(dotted):
            continue
        digits, _, rest = key[start:].partition(".")
        if digits.isascii() and digits.isdigit() and len(digits) <= 5:
            index = int(digits)
            if index <= MAX_INDEX:
                found.setdefault(index, {})[rest] = value
    return dict(sorted(found.items()))
