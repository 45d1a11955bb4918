"""The pages of Acme Desk, an invented help desk product, as its assistant knows them."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import msgspec
from ruamel.yaml import YAML

SITE = "https://help.acme-desk.example/pages"
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n(.*)\Z", re.DOTALL)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the help site. `page_id` is the id that gold labels use; it is never reused."""

    page_id: str
    title: str
    section: str
    updated: str
    text: str

    @property
    def url(self) -> str:
        """Where the page would be."""
        return f"{SITE}/{self.page_id}"

    @property
    def paragraphs(self) -> list[str]:
        """The text by paragraph: the chunks that are searched."""
        return self.text.split("\n\n")


def load_pages() -> list[Page]:
    """Read all pages, in order of their id."""
    folder = resources.files("collector.demo") / "pages"
    pages = [
        _parse(entry.name, entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".md")
    ]
    return sorted(pages, key=lambda page: int(page.page_id))


def load_yaml(name: str) -> Any:
    """Read a data file that lies beside this module."""
    text = (resources.files("collector.demo") / name).read_text(encoding="utf-8")
    return YAML(typ="safe", pure=True).load(text)


def _parse(name: str, text: str) -> Page:
    found = _FRONT_MATTER.match(text)
    if found is None:
        raise ValueError(f"{name}: must start with front matter between two lines of ---")
    header = YAML(typ="safe", pure=True).load(found[1])
    return Page(
        page_id=header["id"],
        title=header["title"],
        section=header["section"],
        updated=str(header["updated"]),
        text=found[2].strip(),
    )
