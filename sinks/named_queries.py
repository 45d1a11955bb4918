"""The read-only queries of `sinks/queries`, by name.

A query is one SELECT in one file, with server-side parameters such as `{since:DateTime64(6,
'UTC')}`; its header comment says what it answers, its parameters and its columns. What several
queries share lies in `parts/`; `{{ name }}` stands for the text of `parts/name.sql`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from collector.errors import PermanentDependencyError
from sinks.rows import parameter

_PLACEHOLDER = re.compile(r"\{(\w+):")
_PART = re.compile(r"\{\{ (\w+) \}\}")
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


class NamedQuery(NamedTuple):
    """A query: its SQL, and the names of the parameters it needs."""

    sql: str
    parameters: frozenset[str]


def packaged_queries() -> dict[str, NamedQuery]:
    """Return all queries of this version by name."""
    folder = resources.files("sinks.queries")
    parts = _texts(folder / "parts")
    return {name: _parse(text, parts) for name, text in _texts(folder).items()}


def _texts(folder: Traversable) -> dict[str, str]:
    """Return the SQL files of a folder by name, comments left out."""
    return {
        file.name.removesuffix(".sql"): _COMMENT.sub("", file.read_text("utf-8")).strip()
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    }


def _parse(text: str, parts: Mapping[str, str]) -> NamedQuery:
    sql = text
    while _PART.search(sql):  # a part may hold others
        sql = _PART.sub(lambda found: parts[found[1]], sql)
    return NamedQuery(sql, frozenset(_PLACEHOLDER.findall(sql)))


def bind(
    queries: Mapping[str, NamedQuery], name: str, values: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the SQL of a query and its parameters as the server reads them.

    Raises:
        PermanentDependencyError: no such query, or parameters that do not fit it.
    """
    if name not in queries:
        raise PermanentDependencyError(
            f"store: no query named {name}; there are {', '.join(sorted(queries))}"
        )
    query = queries[name]
    if missing := sorted(query.parameters - values.keys()):
        raise PermanentDependencyError(f"store: the query {name} needs {', '.join(missing)}")
    if unknown := sorted(values.keys() - query.parameters):
        raise PermanentDependencyError(f"store: the query {name} knows no {', '.join(unknown)}")
    return query.sql, {key: parameter(value) for key, value in values.items()}
