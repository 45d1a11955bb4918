"""Numbers and short texts out of attributes of any type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


def text(value: Any) -> str | None:
    """Return a non-empty text, also of a number; None for anything else."""
    if value is None:
        return None
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def integer(value: Any) -> int | None:
    """Return a count sent as number or as digits. None for a negative or missing one."""
    number = None if value is None else real(value)
    return int(number) if number is not None and number >= 0 else None


def real(value: Any) -> float | None:
    """Return a finite number sent as number or as text."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def first_text(values: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Return the first non-empty text under the given keys."""
    for key in keys:
        found = values.get(key)
        if found is not None:
            cleaned = text(found)
            if cleaned is not None:
                return cleaned
    return None


def first_integer(values: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """Return the first count under the given keys; 0 is a count."""
    for key in keys:
        number = integer(values.get(key))
        if number is not None:
            return number
    return None
