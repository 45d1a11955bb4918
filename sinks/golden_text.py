"""The text of golden files: rows with their lines, and rows added with the rest untouched."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from collector.errors import UsageError
from sinks.dead_letters import sync_folder

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?[0-9]+\.[0-9]*(e[-+]?[0-9]+)?")
_NO_FOLDING = 2**31
"""Width of a line. A folded line would lose the second of two spaces."""

ROWS_KEY = "questions"
"""Of a file that is no plain list: where its rows are."""

_LINE_WITH_TEXT = re.compile(r"^(?=.*\S)", re.MULTILINE)
_BETWEEN_ROWS = re.compile(r"[\s,]*")


class LocatedRow(NamedTuple):
    """One row as written, the line it starts on, and the lines of its fields where known."""

    values: Mapping[str, Any]
    line: int
    field_lines: Mapping[str, int]

    def line_of(self, field: str) -> int:
        """Return the line of a field, that of the row where it has none."""
        return self.field_lines.get(field, self.line)


# --- YAML --------------------------------------------------------------------------------


def parse_yaml(path: Path, text: str) -> list[LocatedRow]:
    """Return the rows of a YAML list, or of the list under `questions`.

    Raises:
        UsageError: not YAML, or not a list of mappings.
    """
    root = _compose(path, text)
    if root is None:
        return []
    rows = _list_in(root)
    if rows is None:
        line = _line(root)
        raise UsageError([f"{path}:{line}: must be a list of rows, or hold one under questions"])
    return [_located(path, node) for node in rows.value]


def _list_in(root: Node) -> SequenceNode | None:
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


def _located(path: Path, node: Node) -> LocatedRow:
    if not isinstance(node, MappingNode):
        raise UsageError([f"{path}:{_line(node)}: a row must be a mapping, such as id: q1"])
    values = {str(_plain(key)): _plain(value) for key, value in node.value}
    lines = {str(_plain(key)): _line(key) for key, _ in node.value}
    return LocatedRow(values, _line(node), lines)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _plain(node: Node) -> Any:
    """Return the value of a node. A number that is an identifier, such as 007, stays a text."""
    if isinstance(node, MappingNode):
        return {str(_plain(key)): _plain(value) for key, value in node.value}
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
    """Return the rows of a JSON array, of the array under `questions`, or of JSON lines.

    Raises:
        UsageError: not JSON, or not a list of objects.
    """
    decoder = json.JSONDecoder()
    rows: list[LocatedRow] = []
    try:
        position, is_array = _start_of_rows(path, text)
        while True:
            position = _skip(text, position)
            if position >= len(text) or (is_array and text[position] == "]"):
                return rows
            line = text.count("\n", 0, position) + 1
            value, position = decoder.raw_decode(text, position)
            if not isinstance(value, dict):
                raise UsageError([f"{path}:{line}: a row must be an object with keys and values"])
            rows.append(LocatedRow(value, line, {}))
    except json.JSONDecodeError as err:
        raise UsageError([f"{path}:{err.lineno}: not JSON: {err.msg}"]) from err


def _start_of_rows(path: Path, text: str) -> tuple[int, bool]:
    """Return where the first row may start, and whether the rows are those of an array.

    Raises:
        json.JSONDecodeError: what should be one array or object is no JSON.
    """
    if text.lstrip().startswith("["):
        json.loads(text)
        return text.index("[") + 1, True
    if path.suffix == ".jsonl" or not _is_wrapped(text):
        return 0, False
    decoder = json.JSONDecoder()
    position = _skip(text, text.index("{") + 1)
    while True:
        key, position = decoder.raw_decode(text, position)
        position = _skip(text, text.index(":", position) + 1)
        if key == ROWS_KEY:
            return position + 1, True
        _, position = decoder.raw_decode(text, position)
        position = _skip(text, position)


def _is_wrapped(text: str) -> bool:
    """Whether a text is one JSON object with a list under `questions`."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return False
    return isinstance(found, dict) and isinstance(found.get(ROWS_KEY), list)


def _skip(text: str, position: int) -> int:
    found = _BETWEEN_ROWS.match(text, position)
    return found.end() if found else position


# --- Writing -----------------------------------------------------------------------------


def dump_rows(suffix: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as the text of a file of their own."""
    clean = [dict(row) for row in rows]
    if suffix == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in clean)
    if suffix == ".json":
        return json.dumps(clean, ensure_ascii=False, indent=2) + "\n"
    out = io.StringIO()
    yaml = YAML()
    yaml.width = _NO_FOLDING
    yaml.dump(_styled(clean), out)
    return out.getvalue()


def _styled(value: Any) -> Any:
    """Give texts the YAML style that keeps them whole: blocks for lines, quotes for odd signs."""
    if isinstance(value, dict):
        return {_styled(key): _styled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_styled(item) for item in value]
    if not isinstance(value, str) or value.isprintable():
        return value
    if value.replace("\n", "").isprintable():
        return LiteralScalarString(value)
    return DoubleQuotedScalarString(value)


def with_rows(suffix: str, text: str, added: str) -> str:
    """Return `text` with the rows of `added` at its end, both in the form of `suffix`.

    YAML keeps every byte it has: the new rows go behind its last one, indented as that one is.
    """
    if not text.strip():
        return added
    if suffix == ".json":
        return _json_changed(text, lambda rows: rows.extend(json.loads(added)))
    if suffix == ".jsonl":
        return _ended(text) + added
    root = YAML(typ="safe", pure=True).compose(text)
    rows = _list_in(root) if isinstance(root, Node) else None
    if rows is None:  # comments only
        return _ended(text) + added
    if rows.flow_style:
        return _flow_changed(text, lambda rows: rows.extend(YAML().load(added)))
    indent = " " * int(rows.start_mark.column)
    end = int(rows.end_mark.index)
    block = _LINE_WITH_TEXT.sub(indent, added)
    if "\r\n" in text:
        block = block.replace("\n", "\r\n")
    return _ended(text[:end]) + block + text[end:]


def without_rows(suffix: str, text: str, places: Collection[int]) -> str:
    """Return `text` without the rows at some places, counted from 0; comments beside them stay."""

    def removed(rows: list[Any]) -> None:
        for place in sorted(places, reverse=True):
            del rows[place]

    if suffix == ".json":
        return _json_changed(text, removed)
    if suffix == ".jsonl":
        lines = [line for line in text.splitlines(keepends=True) if line.strip()]
        removed(lines)
        return "".join(lines)
    root = YAML(typ="safe", pure=True).compose(text)
    rows = _list_in(root) if isinstance(root, Node) else None
    if rows is None:
        return text
    if rows.flow_style:
        return _flow_changed(text, removed)
    for place in sorted(places, reverse=True):
        start = text.rfind("\n", 0, rows.value[place].start_mark.index) + 1
        end = text.find("\n", _last_index(rows.value[place]))
        text = text[:start] + (text[end + 1 :] if end >= 0 else "")
    return text


def _last_index(node: Node) -> int:
    """Return where the last character of a node is; what follows it, comments too, is not its."""
    if isinstance(node, MappingNode | SequenceNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return _last_index(last[1] if isinstance(node, MappingNode) else last)
    return int(node.end_mark.index) - 1


def _json_changed(text: str, change: Callable[[list[Any]], None]) -> str:
    held = json.loads(text)
    change(held[ROWS_KEY] if isinstance(held, dict) else held)
    return json.dumps(held, ensure_ascii=False, indent=2) + "\n"


def _flow_changed(text: str, change: Callable[[list[Any]], None]) -> str:
    """Change a list in brackets, which has to be written anew; comments are kept."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _NO_FOLDING
    held = yaml.load(text)
    rows = held[ROWS_KEY] if isinstance(held, dict) else held
    change(rows)
    rows.fa.set_block_style()
    out = io.StringIO()
    yaml.dump(held, out)
    return out.getvalue()


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step: readers see the old text or the new, never a part.

    Raises:
        OSError: nothing was changed; also for a file that nobody may write, since replacing it
            needs no right on the file itself.
    """
    target = path.resolve()
    if target.exists() and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
        raise PermissionError(errno.EACCES, "it is read-only")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)
