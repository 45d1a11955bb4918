"""Texts of others made fit to be shown: on a terminal, or in a line of Markdown.

Control characters move the cursor, hide text or send links and commands to a terminal (ESC, and
the C1 codes that many terminals read like it); bidirectional controls make a line read otherwise
than it is written (Unicode TR 36).
"""

from __future__ import annotations

import re

_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SURROGATES = "\ud800-\udfff"
_UNSAFE = re.compile(f"[{_CONTROLS}{_SURROGATES}]")


def plain(text: str) -> str:
    """Return text as one line without control characters."""
    return _UNSAFE.sub("", " ".join(text.split())).strip()


def plain_json(text: str) -> str:
    """Return JSON that says the same, with control characters in its strings escaped."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
