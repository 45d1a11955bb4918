"""What all apps share: a few documents, a search in them, a prompt. Standard library only."""

from __future__ import annotations

import re
from typing import NamedTuple


class Page(NamedTuple):
    """One document of the shop."""

    id: str
    text: str
    source: str


PAGES = (
    Page("p-returns", "You may return a jacket within 30 days of delivery.", "returns.md"),
    Page("p-tags", "A jacket must still carry its tags.", "tags.md"),
    Page("p-gifts", "Gift cards never expire.", "gifts.md"),
)
QUESTION = "How many days do I have to return a jacket?"
ANSWER = "You have 30 days after delivery to return a jacket [1]. Leave the tags on [2]."
MODEL = "gpt-4.1-mini"
INPUT_TOKENS = 120
OUTPUT_TOKENS = 20
SESSION = "conversation-7"
USER = "user-42"
INSTRUCTIONS = "Answer from the numbered documents only and cite them."


def search(query: str, top: int = 2) -> list[tuple[Page, float]]:
    """Return the pages with most words of the query, and which share of it they hold."""
    words = set(re.findall(r"\w+", query.lower()))
    scored = [(p, len(words & set(re.findall(r"\w+", p.text.lower()))) / len(words)) for p in PAGES]
    return sorted(scored, key=lambda found: -found[1])[:top]


def context(query: str) -> str:
    """Return the pages found, numbered, as they go into a prompt."""
    return "\n".join(f"[{n}] {page.text}" for n, (page, _) in enumerate(search(query), start=1))
