"""The review as Markdown or HTML. Everything from users is escaped: it is hostile text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from collector.plain import plain
from dashboards.terminal import WHERE, interval, notes, point, whereabouts, why

# Code, emphasis outside words, links, tags, entities, and what some readers turn into links and
# mentions by themselves; at the start of a text also headings, lists and quotes.
_MARKDOWN = re.compile(
    r"[\\`*\[\]~]|<(?=[a-z/!?])|&(?=#?\w+;)|@(?=\w)|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\."
    r"|^[#+>=-]",
    re.IGNORECASE,
)
_DOTS = re.compile(r"\.{1,2}/*")
_NUMBERED = re.compile(r"^(\d{1,9})(?=[.)](\s|$))")


def render(report: Mapping[str, Any], kind: str) -> str:
    """Return a review report as text.

    Args:
        report: as returned by `Reports.review`.
        kind: `md` or `html`.
    """
    return environment().get_template(f"report.{kind}.j2").render(report=report)


@cache
def environment() -> Environment:
    """Return what turns templates into pages and reports; in HTML everything is escaped."""
    made = Environment(
        loader=PackageLoader("dashboards.review"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"md": markdown, "point": point, "interval": interval}
    made.filters |= {"whereabouts": whereabouts, "why": why, "words": words}
    made.filters["notes"] = notes
    made.filters["usd"] = usd
    made.globals |= {"where": WHERE, "link": link, "kept": kept}
    made.filters["day"] = lambda text: text[:10]
    made.filters["minute"] = lambda text: text[:16].replace("T", " ")
    made.filters["number"] = lambda value: "" if value is None else f"{value:.2f}"
    made.filters["percent"] = lambda share: f"{100 * share:.0f} %"
    return made


def usd(amount: float) -> str:
    """Return an amount of money as people read it."""
    return f"${amount:,.2f}" if not 0 < amount < 0.01 else "less than $0.01"


def link(kind: str, name: str, query: str = "", **more: str) -> str:
    """Return the address of a page; ids come from others and may hold anything."""
    added = urlencode({key: value for key, value in more.items() if value})
    whole = "&".join(part for part in (query, added) if part)
    # Browsers take a part that is `.` or `..` out of an address, however it is written.
    written = quote(f"{name}/" if _DOTS.fullmatch(name) else name, safe="")
    return f"/{kind}/{written}" + (f"?{whole}" if whole else "")


def linked(name: str) -> str:
    """Return the id that `link` wrote into an address."""
    return name[:-1] if name.endswith("/") and _DOTS.fullmatch(name) else name


def kept(asked: Mapping[str, str], *names: str, **more: str) -> str:
    """Return the address of a list: those parameters as they are asked for, and some more."""
    given = {name: asked.get(name) for name in names} | more
    return "?" + urlencode({key: value for key, value in given.items() if value})


def words(name: str) -> str:
    """Return a name of a program as people read it: `not_found` as `not found`."""
    return name.replace("_", " ").lower()


def markdown(text: str | None) -> str:
    """Return text as one line of Markdown in which nothing is markup or a control character."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", plain(text or ""))
    return _NUMBERED.sub(r"\1\\", escaped)
