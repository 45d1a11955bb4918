"""Citation marks in an answer."""

from __future__ import annotations

import re

_MARK = re.compile(r"\[(?:(ID:)|doc)?\s*(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")


def citations_in(answer: str) -> list[int]:
    """Return the distinct 1-based numbers an answer cites, in order.

    Read: `[1]`, `[1, 2]`, `[doc1]`, and `[ID:0]`, which counts from 0.
    """
    found: dict[int, None] = {}
    for zero_based, numbers in _MARK.findall(answer):
        for digits in re.split(r"[,;]", numbers):
            number = int(digits) + bool(zero_based)
            if number > 0:
                found.setdefault(number)
    return list(found)
