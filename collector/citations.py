"""Citation marks in an answer."""

from __future__ import annotations

import re

_MARK = re.compile(r"\[(?:(ID:)|doc)?\s*(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")
_AFTER_THE_STOP = re.compile(rf"([.!?。])([ \t]?(?:{_MARK.pattern})+)")
# Numbers travel through the splitting of sentences as characters that no text may use.
_FIRST = 0xE000
_CARRIED = re.compile("[\ue000-\ue3ff]")


def citations_in(answer: str) -> list[int]:
    """Return the distinct 1-based numbers an answer cites, in order.

    Read: `[1]`, `[1, 2]`, `[doc1]`, and `[ID:0]`, which counts from 0.
    """
    return list(dict.fromkeys(n for mark in _MARK.finditer(answer) for n in _numbers(mark)))


def carried(answer: str) -> str:
    """Return the answer with each mark as characters that cling to the word before it.

    A mark behind a full stop belongs to the sentence that it ends.
    """
    moved = _AFTER_THE_STOP.sub(r"\2\1", _CARRIED.sub("", answer))
    return re.sub(
        rf"[ \t]?(?:{_MARK.pattern})",
        lambda mark: "".join(chr(_FIRST + n) for n in _numbers(_MARK.search(mark[0]))),
        moved,
    )


def taken_out(text: str) -> tuple[str, list[int]]:
    """Return a part of a `carried` answer without its marks, and the numbers it cites."""
    numbers = dict.fromkeys(ord(found[0]) - _FIRST for found in _CARRIED.finditer(text))
    return _CARRIED.sub("", text), list(numbers)


def _numbers(mark: re.Match[str] | None) -> list[int]:
    if mark is None:
        return []
    zero_based, numbers = mark.groups()
    found = (int(digits) + bool(zero_based) for digits in re.split(r"[,;]", numbers))
    return [number for number in found if number > 0]
