"""The text of golden files read: rows as they are written, each with its lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from collector.errors import UsageError

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?[0-9]+\.[0-9]*(e[-+]?[0-9]+)?")

ROWS_KEY = "questions"
"""Of a file that is no plain list: where its rows are."""

_BETWEEN_ROWS = re.compile(r"[\s,]*")


class LocatedRow(NamedTuple):
    """One row as written, the line it starts on, and the lines of its fields where known.

    `problem` says why it is no row at all; `values` is then empty.
    """

    values: Mapping[str, Any]
    line: int
    field_lines: Mapping[str, int] = {}
    problem: str | None = None

    def line_of(self, field: str) -> int:
        """Return the line of a field, that of the row where it has none."""
        return self.field_lines.get(field, self.line)


_TOO_DEEP = "is nested too deeply, or holds itself"


class _Twice(ValueError):
    """A key that one object has twice."""


def _told_twice(key: str) -> str:
    return f"{key}: is there twice; keep one"


# --- YAML --------------------------------------------------------------------------------


def parse_yaml(path: Path, text: str) -> list[LocatedRow]:
    """Return the rows of a YAML list, or of the list under `questions`.

    Raises:
        UsageError: not YAML, or not a list.
    """
    try:
        root = _compose(path, text)
        if root is None:
            return []
        rows = list_in(root)
        if rows is None:
            line = _line(root)
            raise UsageError(
                [f"{path}:{line}: must be a list of rows, or hold one under questions"]
            )
        return [_located(node) for node in rows.value]
    except RecursionError as err:
        raise UsageError([f"{path}: {_TOO_DEEP}"]) from err


def list_in(root: Node) -> SequenceNode | None:
    """Return the list of rows: the whole file, or what its key `questions` holds."""
    if isinstance(root, MappingNode):
        named = (value for key, value in root.value if key.value == ROWS_KEY)
        root = next(named, root)
    return root if isinstance(root, SequenceNode) else None


def _compose(path: Path, text: str) -> Node | None:
    """Return the root node, None for a file without content."""
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as err:
        line = err.problem_mark.line + 1 if err.problem_mark else 1
        raise UsageError([f"{path}:{line}: not YAML: {err.problem}"]) from err
    except YAMLError as err:
        raise UsageError([f"{path}: not YAML: a character that YAML does not allow"]) from err
    if isinstance(root, ScalarNode) and str(root.tag).endswith(":null"):
        return None
    return root if isinstance(root, Node) else None


def _located(node: Node) -> LocatedRow:
    if not isinstance(node, MappingNode):
        return LocatedRow({}, _line(node), problem="a row must be a mapping, such as id: q1")
    try:
        fields = _fields(node)
        values = {name: _plain(value) for name, (_, value) in fields.items()}
    except _Twice as err:
        return LocatedRow({}, _line(node), problem=_told_twice(str(err)))
    return LocatedRow(values, _line(node), {name: _line(key) for name, (key, _) in fields.items()})


def _fields(node: MappingNode) -> dict[str, tuple[Node, Node]]:
    """Return key and value by name; what merge keys (`<<`) bring gives way to the node's own.

    Raises:
        _Twice: a key is there twice.
    """
    own: dict[str, tuple[Node, Node]] = {}
    merged: dict[str, tuple[Node, Node]] = {}
    for key, value in node.value:
        name = str(_plain(key))
        if str(key.tag).endswith(":merge"):
            for source in value.value if isinstance(value, SequenceNode) else [value]:
                if isinstance(source, MappingNode):
                    merged = _fields(source) | merged
        elif name in own:
            raise _Twice(name)
        else:
            own[name] = (key, value)
    return merged | own


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _plain(node: Node) -> Any:
    """Return the value of a node. A number that is an identifier, such as 007, stays a text."""
    if isinstance(node, MappingNode):
        return {name: _plain(value) for name, (_, value) in _fields(node).items()}
    if isinstance(node, SequenceNode):
        return [_plain(item) for item in node.value]
    kind = str(node.tag).rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() == "true"
    if kind == "int" and _INTEGER.fullmatch(node.value):
        return int(node.value)
    if kind == "float" and _DECIMAL.fullmatch(node.value):
        return float(node.value)
    return str(node.value)


# --- JSON --------------------------------------------------------------------------------


def parse_json(path: Path, text: str) -> list[LocatedRow]:
    """Return the rows of JSON lines, of a JSON array, or of the array under `questions`.

    Raises:
        UsageError: not JSON, or not a list.
    """
    try:
        return list(_lines(text) if path.suffix == ".jsonl" else _array(path, text))
    except json.JSONDecodeError as err:
        raise UsageError([f"{path}:{err.lineno}: not JSON: {err.msg}"]) from err
    except RecursionError as err:
        raise UsageError([f"{path}: {_TOO_DEEP}"]) from err


def _lines(text: str) -> Iterator[LocatedRow]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield _object(_DECODER.decode(line), number)
        except json.JSONDecodeError as err:
            yield LocatedRow({}, number, problem=f"not JSON: {err.msg}")
        except _Twice as err:
            yield LocatedRow({}, number, problem=_told_twice(str(err)))


def _array(path: Path, text: str) -> Iterator[LocatedRow]:
    position = _start_of_rows(path, text)
    while True:
        position = _skip(text, position)
        if position >= len(text) or text[position] == "]":
            return
        line = text.count("\n", 0, position) + 1
        try:
            value, position = _DECODER.raw_decode(text, position)
            yield _object(value, line)
        except _Twice as err:
            _, position = json.JSONDecoder().raw_decode(text, position)
            yield LocatedRow({}, line, problem=_told_twice(str(err)))


def _object(value: Any, line: int) -> LocatedRow:
    if isinstance(value, dict):
        return LocatedRow(value, line)
    return LocatedRow({}, line, problem="a row must be an object with keys and values")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def _start_of_rows(path: Path, text: str) -> int:
    """Return where the first row may start.

    Raises:
        json.JSONDecodeError: it is no JSON.
        UsageError: it holds no list of rows.
    """
    if not text.strip():
        return len(text)
    held = json.loads(text)
    if isinstance(held, list):
        return text.index("[") + 1
    if not isinstance(held, dict) or not isinstance(held.get(ROWS_KEY), list):
        wanted = "must be a list of rows, or hold one under questions"
        raise UsageError([f"{path}:1: {wanted}; a file with one object a line ends in .jsonl"])
    decoder = json.JSONDecoder()
    position = _skip(text, text.index("{") + 1)
    while True:
        key, position = decoder.raw_decode(text, position)
        position = _skip(text, text.index(":", position) + 1)
        if key == ROWS_KEY:
            return position + 1
        _, position = decoder.raw_decode(text, position)
        position = _skip(text, position)


def _skip(text: str, position: int) -> int:
    found = _BETWEEN_ROWS.match(text, position)
    return found.end() if found else position
