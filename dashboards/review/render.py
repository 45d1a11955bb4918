"""The review as Markdown or HTML. Everything from users is escaped: it is hostile text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+.!|<>~-])")


def render(report: Mapping[str, Any], kind: str) -> str:
    """Return a review report as text.

    Args:
        report: as returned by `Reports.review`.
        kind: `md` or `html`.
    """
    environment = Environment(
        loader=PackageLoader("dashboards.review"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["md"] = markdown
    environment.filters["day"] = lambda text: text[:10]
    environment.filters["minute"] = lambda text: text[:16].replace("T", " ")
    environment.filters["number"] = lambda value: "" if value is None else f"{value:.2f}"
    return environment.get_template(f"report.{kind}.j2").render(report=report)


def markdown(text: str | None) -> str:
    """Return text as one line of Markdown in which nothing is markup."""
    return _MARKDOWN.sub(r"\\\1", " ".join((text or "").split()))
