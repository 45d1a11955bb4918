"""The text of golden files written: rows added and taken out with the rest untouched."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from sinks.dead_letters import sync_folder
from sinks.golden_parse import ROWS_KEY, list_in
from sinks.rows import text as storable

_NO_FOLDING = 2**31
"""Width of a line. A folded line would lose the second of two spaces."""

_LINE_WITH_TEXT = re.compile(r"^(?=.*\S)", re.MULTILINE)


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
    if "\r\n" in text:
        added = added.replace("\n", "\r\n")
    if suffix == ".jsonl":
        return _ended(text) + added
    root = YAML(typ="safe", pure=True).compose(text)
    rows = list_in(root) if isinstance(root, Node) else None
    if rows is None:  # comments only
        return _ended(text) + added
    if rows.flow_style:
        return _flow_changed(text, lambda rows: rows.extend(YAML().load(added)))
    indent = " " * int(rows.start_mark.column)
    end = int(rows.end_mark.index)
    block = _LINE_WITH_TEXT.sub(indent, added)
    return _ended(text[:end]) + block + text[end:]


def without_rows(suffix: str, text: str, places: Collection[int]) -> str:
    """Return `text` without the rows at some places, counted from 0; comments beside them stay."""

    def removed(rows: list[Any]) -> None:
        for place in sorted(places, reverse=True):
            del rows[place]

    if suffix == ".json":
        return _json_changed(text, removed)
    if suffix == ".jsonl":
        # Not `splitlines`: it also breaks at signs that may stand within JSON texts.
        lines = [line for line in text.split("\n") if line.strip()]
        removed(lines)
        return "".join(f"{line}\n" for line in lines)
    root = YAML(typ="safe", pure=True).compose(text)
    rows = list_in(root) if isinstance(root, Node) else None
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
    return storable(json.dumps(held, ensure_ascii=False, indent=2)) + "\n"


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
    if not text or text.endswith("\n"):
        return text
    return text + ("\r\n" if "\r\n" in text else "\n")


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
